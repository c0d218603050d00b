// Package wording describes alerts in words: counts, causes, links to the web pages, and commands that investigate.
package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	rule "github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Failure returns one human-readable line: what the agent did if that is known, otherwise why the calls failed.
func Failure(s alerts.Share) string {
	id := s.ID()
	text := session.Summaries[id]
	if s.Cause == signals.CacheBroken {
		text = cacheReason(id)
	}
	if id == s.Cause {
		if text = phrase(meaning(id)); s.Guessed && text != "" {
			text = "probably " + text
		}
	}
	switch {
	case id == "":
		return "unknown cause"
	case text == "":
		return strings.ReplaceAll(id, "_", " ")
	}
	return text
}

// cacheReason returns a reason of package promptcache in words; "" if id is none.
func cacheReason(id string) string {
	if text := promptcache.Words(id, "", ""); text != id {
		return text
	}
	return ""
}

// Why is Failure for the share of ev with this index. What broke the prompt cache is in the example of the first.
func Why(ev *alerts.Evidence, i int) string {
	if i == 0 && ev.CacheBroken() && ev.Example != nil && ev.Example.Summary != "" {
		return ev.Example.Summary
	}
	return Failure(ev.Shares[i])
}

// Problem returns what Group.Problem is, as Kind does, one human-readable line about it, which says whether it is guessed, and the fix
// if one is known.
func Problem(id string, guessed bool) (kind, text, fix string) {
	s := alerts.Share{Cause: id, Guessed: guessed}
	if session.Summaries[id] != "" {
		s, fix = alerts.Share{RootCause: id}, session.Fix(id)
	} else if cacheReason(id) != "" {
		v := promptcache.Verdict{Reason: id, Element: "the parameter"}
		s, fix = alerts.Share{Cause: signals.CacheBroken, RootCause: id}, v.Fix()
	} else if _, fix = cause.Meaning(id); fix == "" {
		_, fix = analyzer.Odd(id)
	}
	return Kind(&alerts.Evidence{}, s), Failure(s), fix
}

// Kind returns what Share.ID is: "root cause", or else "cause", or "rule" or "signal" of what is not about a failed call.
// The name of a rule is also a cause: without the rules of the evidence, it is taken for one.
func Kind(ev *alerts.Evidence, s alerts.Share) string {
	switch {
	case s.ID() != s.Cause:
		return "root cause"
	case slices.ContainsFunc(signals.All, func(d signals.Doc) bool { return d.ID == s.Cause }), measureOf(s.Cause) != "":
		return "signal"
	case slices.Contains(ev.Rules, s.Cause):
		return "rule"
	}
	return "cause"
}

// unusual maps what is unusual of a stage, a measure and its direction, to a sentence.
var unusual = map[string]string{
	"duration_high":      "Calls take longer than usual.",
	"first_token_high":   "The first token comes later than usual.",
	"input_tokens_high":  "Calls read more tokens than usual.",
	"output_tokens_high": "Answers are longer than usual.",
	"history_high":       "Histories are longer than usual.",
	"calls_high":         "There are far more calls than usual.",
	"calls_low":          "There are far fewer calls than usual.",
	alerts.RateLimitNear: "A rate limit of the provider is nearly used up.",
	"cost_high":          "Calls cost more than usual.",
	"spend_high":         "More is spent than usual.",
	"tool_errors_high":   "More replies of tools report errors than usual.",
	"cache_high":         "More calls than usual miss the prompt cache.",
}

// Measure returns the measure that a problem is about, and whether it is high or low; "" if it is about failed calls or findings.
func Measure(id string) (measure, direction string) {
	measure = measureOf(id)
	if direction = strings.TrimPrefix(id, measure+"_"); direction == id {
		direction = "high"
	}
	return measure, direction
}

func measureOf(id string) string {
	if sentence, _ := analyzer.Odd(id); sentence != "" {
		return id
	}
	if i := max(strings.LastIndex(id, "_high"), strings.LastIndex(id, "_low")); i >= 0 && unusual[id] != "" {
		return id[:i]
	}
	return ""
}

// meaning returns a sentence about a cause, a rule, a signal or what is unusual; "" if id is none of them.
func meaning(id string) string {
	if sentence := unusual[id]; sentence != "" {
		return sentence
	}
	if sentence, _ := analyzer.Odd(id); sentence != "" {
		return sentence
	}
	if sentence, _ := cause.Meaning(id); sentence != "" {
		return sentence
	}
	if r := rule.ByID(id); r != nil {
		title, _, _ := strings.Cut(r.Doc, "\n")
		return title
	}
	if i := slices.IndexFunc(signals.All, func(d signals.Doc) bool { return d.ID == id }); i >= 0 {
		return signals.All[i].Doc
	}
	return ""
}

// phrase returns a sentence without its capital letter and period, so that it can continue another one.
func phrase(sentence string) string {
	if sentence == "" {
		return ""
	}
	return strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".")
}

// findings maps rules and signals to the words that follow one and several of their findings.
var findings = map[string][2]string{
	"missing_tool_reply":             {"tool call got no reply", "tool calls got no reply"},
	signals.ReplyNeverArrived:        {"tool call got no reply", "tool calls got no reply"},
	signals.MaskedFailure:            {"task ended on a failed call as if it had succeeded", "tasks ended on a failed call as if they had succeeded"},
	signals.ConversationEndedOnError: {"task ended on a failed call as if it had succeeded", "tasks ended on a failed call as if they had succeeded"},
	signals.RetryStorm:               {"rejected request was sent again and again", "rejected requests were sent again and again"},
	signals.AgentLoop:                {"agent made the same calls again and again", "agents made the same calls again and again"},
	signals.ModelChanged:             {"model was replaced", "models were replaced"},
	signals.CacheBroken:              {"call missed the prompt cache", "calls missed the prompt cache"},
	signals.LatentViolation:          {"accepted request would be rejected by other providers", "accepted requests would be rejected by other providers"},

	analyzer.ToolError:                     {"reply of a tool reports an error", "replies of tools report errors"},
	analyzer.OddID(analyzer.EndedLimit):    {"answer was cut off at the token limit", "answers were cut off at the token limit"},
	analyzer.OddID(analyzer.EndedEmpty):    {"answer was empty", "answers were empty"},
	analyzer.OddID(analyzer.EndedRefused):  {"answer was a refusal", "answers were refusals"},
	analyzer.OddID(analyzer.EndedFiltered): {"answer was withheld by a filter", "answers were withheld by a filter"},
}

// Counted returns the words that follow a number of failures of ev, for example "calls failed" or "tool calls got no
// reply".
func Counted(ev *alerts.Evidence, n uint64) string {
	one, many := "call failed", "calls failed"
	if len(ev.Rules) > 0 {
		words, known := findings[ev.Rules[0]]
		for _, id := range ev.Rules[1:] {
			known = known && findings[id] == words
		}
		if one, many = words[0], words[1]; !known {
			one, many = "finding of "+strings.Join(ev.Rules, ", "), "findings of "+strings.Join(ev.Rules, ", ")
		}
	}
	if n == 1 {
		return one
	}
	return many
}

// providerMessage matches the first message in a JSON body, which may be cut off.
var providerMessage = regexp.MustCompile(`"(?:message|detail|error)"\s*:\s*"((?:[^"\\]|\\.)*)`)

// maxError is the length to which an error text is searched for its message, in bytes.
const maxError = 64 << 10

// ProviderMessage returns the message in a provider's error text: the value in a JSON body, or else the text.
func ProviderMessage(text string) string {
	text = text[:min(len(text), maxError)]
	if !strings.HasPrefix(strings.TrimLeft(text, " \r\n\t["), "{") {
		return text
	}
	m := providerMessage.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	var s string
	if err := json.Unmarshal([]byte(`"`+m[1]+`"`), &s); err != nil || s == "" {
		return text
	}
	return s
}

// Truncate shortens text to at most n characters; the last character of a shortened text is an ellipsis, after a whole word. It reads no more of text than
// that.
func Truncate(text string, n int) string {
	count, end := 0, 0 // end is where an ellipsis begins
	for i := range text {
		if count == n-1 {
			end = i
		}
		if count++; count > n {
			return strings.ToValidUTF8(wholeWords(text[:end], text[end:]), "\ufffd") + "…"
		}
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// wholeWords returns text without the word that continues in rest, unless that word is most of it.
func wholeWords(text, rest string) string {
	if i := strings.LastIndexByte(text, ' '); i > len(text)/2 && !strings.HasPrefix(rest, " ") {
		text = text[:i]
	}
	return strings.TrimRight(text, " ,;:")
}

// MaxID is the longest id in a notification, in bytes.
const MaxID = 200

// AlertURL returns the URL of the web page about a, an alert of g: the page of its problem if it is about one. It is "" without an
// external URL.
func AlertURL(externalURL string, g *alerts.Group, a *alerts.Alert) string {
	if a.Problem != "" {
		return ProblemURL(externalURL, alerts.GroupID(g.Key))
	}
	return page(externalURL, "/incident/"+a.ID())
}

// ProblemURL returns the URL of the web page about the problem with this id, or "" without an external URL.
func ProblemURL(externalURL, id string) string { return page(externalURL, "/problem/"+id) }

func page(externalURL, path string) string {
	if externalURL == "" {
		return ""
	}
	return strings.TrimRight(externalURL, "/") + path
}

// ConversationURL returns the URL of a conversation's web page, or "" without an external URL or a usable id.
func ConversationURL(externalURL, id string) string {
	if externalURL == "" || id == "" || len(id) > MaxID {
		return ""
	}
	return strings.TrimRight(externalURL, "/") + "/conversation/" + url.PathEscape(id)
}

// Subject returns what a is about: the service and stage, for example checkout-agent/planner, or else the provider or the rule.
func Subject(a *alerts.Alert) string {
	service, stage := a.Labels["service"], cmp.Or(a.Labels["stage"], a.Labels["agent"])
	switch {
	case service != "" && stage != "":
		return service + "/" + stage
	case service+stage != "":
		return service + stage
	}
	return cmp.Or(a.Labels["provider"], a.Name)
}

// Counts returns what happened in one phrase, for example "43 of 98 calls failed (44%)". While the prompt cache is missed, what that costs
// says more than a number of calls.
func Counts(a *alerts.Alert) string {
	ev, when := &a.Evidence, ""
	if a.State == alerts.Resolved {
		when = " at the peak"
	}
	switch {
	case ev.Failed > 0 && len(ev.Rules) > 0 && !ev.ProviderChanged() && (!ev.CacheBroken() || a.State != alerts.Firing):
		return fmt.Sprintf("%s %s, in %s calls%s", quantity.Count(ev.Failed), Counted(ev, ev.Failed), quantity.Count(ev.Calls), when)
	case ev.Failed > 0 && ev.Calls > 0 && len(ev.Rules) == 0:
		return fmt.Sprintf("%s of %s calls failed%s (%s)", quantity.Count(ev.Failed), quantity.Count(ev.Calls), when, quantity.Share(ev.Failed, ev.Calls))
	case a.Annotations["summary"] != "":
		return strings.TrimPrefix(a.Annotations["summary"], a.Labels["service"]+"/"+a.Labels["stage"]+": ")
	}
	return fmt.Sprintf("%s (value %.4g)", a.Name, a.Value)
}

// Summary returns what a is about and what happened in one line, for example "checkout-agent/planner: 43 of 98 calls failed (44%)".
// If nothing was counted, it is that of the rule.
func Summary(a *alerts.Alert) string {
	if a.Evidence.Failed == 0 {
		return a.Annotations["summary"]
	}
	return Subject(a) + ": " + Counts(a)
}

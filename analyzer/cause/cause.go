package cause

import (
	"bytes"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Values of Cause.Known.
const (
	Stated   = "stated"   // the text, in the wording of a known server, or the status of the answer states it
	Guessed  = "guessed"  // the concepts in the text suggest it; the wording is not known from any server
	Inferred = "inferred" // the answer does not state a cause; the request violates a rule that its target is known to enforce
	Both     = "both"     // the answer states it and the request shows it
	Conflict = "conflict" // the answer names one defect of the history, but the request shows others, or that it is not there
	None     = "none"     // unexplained
)

// Causes that Classify decides without a table.
const (
	unexplained = "unexplained"
	noResponse  = "no_response"
	streamError = "stream_error"
	serverError = "server_error"
)

// OfContent reports whether the provider refused the request for its content, so that it would refuse it again, and not for lack
// of capacity, credit or a key. Gateways wrap refusals in statuses that are retryable otherwise; then the text must name the fault.
func (c *Cause) OfContent(status int) bool {
	switch c.Class {
	case "access", "policy", "provider":
		return false
	}
	return status >= 400 && !wire.RetryableStatus(status) || c.Known == Stated || c.Known == Both
}

// Input describes a failed exchange.
type Input struct {
	Status  int          // HTTP status; 0 if there was no answer
	Text    []byte       // error text in any form: JSON, an exception string, a log line; only 4 KiB are read
	Rules   []string     // ids of the violated rules for which a rejection is predicted, in rule order
	Variant wire.Variant // variant of the target; its own table is matched first

	// Log means that Text may contain more than an error. A clause then states a cause only if it also contains a refusal.
	Log bool

	// Provider is the provider that answered, "" if unknown. At a few providers, a wording has a different meaning.
	Provider string
}

// A Cause is the reason why an exchange failed.
type Cause struct {
	ID       string // one of IDs
	Class    string // tool_pairing, tool_shape, …
	Known    string // Stated, Guessed, Inferred, Both, Conflict, None
	Other    string // cause that the request shows, if Known is Conflict; else ""
	StatedBy string // table that matched, such as "openai"; "status" if only the status decided; else ""
	Server   string // server that wrote the text, such as "deepseek", if the spelling is unique; else ""
	Gateway  string // intermediary, such as "litellm", if it left a mark in the text; else ""
	Rule     string // violated rule that shows the cause, or else the rule that the text names; may be ""
	Fix      string // how to mend it; more special than that of Meaning if the text says more than the cause
	Denial   string // if Known is Conflict and no rule is violated: what the request shows instead
}

// A row maps a wording to a cause. The wording is given either by words, which are phrases joined by " … " that must occur in
// this order in the normal form, or by a condition on concepts. The names in parentheses are those of the files.
type row struct {
	words      string
	when       string // condition on a clause; see newCondition
	cause      string
	rule       string   // rule that the text names, if it is not one of the rules of the cause
	openRules  []string // rules that the wording may also refer to (open); if one of them is violated, its cause wins
	agreeRules []string // rule, and further rules whose violation confirms the cause (also)
	weak       bool     // too vague to outrank the violated rules
	guess      bool     // words of a library, with which other servers may mean another fault
	only       string   // provider to which this row is limited
	status     int      // in common, the HTTP status to which this row is limited; 0 if to none
	source     string   // where the wording was seen; in common, the servers whose wordings support the row

	phrases   [][]byte
	grams     []uint16 // grams of all phrases
	condition condition

	access, aboutRequest bool // class of the cause; see aboutRequest
	limit                bool // the cause is a limit or a filter, whose words a parameter may also have
}

// A table contains the wordings of one family of providers. The first matching row wins.
type table struct {
	family string
	rows   []row
}

// familyOf maps a variant to the table that is matched first.
var familyOf = map[wire.Variant]string{
	wire.OpenAI: "openai", wire.Azure: "openai", wire.DeepSeek: "deepseek", wire.DeepSeekResponses: "deepseek", wire.Qwen: "qwen",
	wire.GeminiOpenAI: "gemini", wire.GeminiAPI: "gemini", wire.VertexGemini: "gemini",
	wire.AnthropicAPI: "anthropic", wire.VertexAnthropic: "anthropic", wire.BedrockAPI: "anthropic",
	wire.Mistral: "mistral", wire.Groq: "hosts", wire.XAI: "hosts", wire.Together: "hosts", wire.Fireworks: "hosts",
	wire.Kimi: "hosts", wire.GLM: "hosts", wire.MiniMax: "hosts", wire.CohereAPI: "hosts", wire.Ollama: "hosts",
	wire.VLLM: "hosts", wire.SGLang: "hosts", wire.LlamaCPP: "hosts",
	wire.Cerebras: "hosts", wire.MiMo: "hosts", wire.Meta: "hosts",
}

// Classify returns the cause of a failed exchange.
func Classify(in Input) Cause { return all.classify(in) }

func (w *wordings) classify(in Input) Cause {
	var buf [maxText + maxEdges]byte
	var normal [maxNormal]byte
	stated := statements(buf[:0], in.Text)
	text := normalise(normal[:0], stated)
	c := decide(in, w, text)
	c.Server, c.Gateway = writtenBy(stated, text)
	e := registry[c.ID]
	c.Fix = e.fixFor(text)
	return c
}

// decide returns the cause of a failed exchange whose statements have the normal form text.
func decide(in Input, w *wordings, text []byte) Cause {
	r, family := w.match(text, in)
	if in.Status == 0 {
		// Without an answer, the text is the client's own error, unless it names a cause that only a server can state.
		switch {
		case r == nil || registry[r.cause].class == "provider":
			return known(noResponse, Stated, "status", "")
		case r.weak:
			return known(noResponse, Guessed, "status", "")
		}
	}
	if r != nil && !r.weak {
		return stated(r, family, in.Rules)
	}
	if in.Status >= 500 && (bytes.Contains(text, badRequest) || bytes.Contains(text, unprocessable)) {
		in.Status = 400 // a gateway's status for a refusal of the server behind it
	}
	// A status with several meanings states none of them beside a text that says something else.
	how := Stated
	if r == nil && len(text) > 0 {
		how = Guessed
	}
	switch in.Status {
	case 401:
		return known("auth", Stated, "status", "")
	case 403:
		return known("auth", how, "status", "")
	case 402:
		return known("billing", Stated, "status", "")
	case 413:
		return known("payload_too_large", Stated, "status", "")
	case 429:
		return known("rate_limit", Stated, "status", "")
	case 408, 502, 503, 504, 529:
		return known(serverError, Stated, "status", "")
	}
	for _, rule := range in.Rules {
		if id := OfRule(rule); id != "" {
			return known(id, Inferred, "", rule)
		}
	}
	switch {
	case r != nil && r.cause != serverError:
		return stated(r, family, nil) // proxies and servers that lack a feature also answer 5xx
	case in.Status >= 500:
		return known(serverError, how, "status", "")
	case r != nil: // an "unknown error" beside a status that says no more
		c := stated(r, family, nil)
		if in.Status >= 400 {
			c.Known = Guessed
		}
		return c
	case in.Status == 404 || in.Status == 405:
		return known("endpoint_unknown", Guessed, "status", "")
	case in.Status < 400:
		return known(streamError, Stated, "status", "")
	}
	return known(unexplained, None, "", "")
}

// Reasons of HTTP in the normal form of a text.
var badRequest, unprocessable = []byte("400 bad request"), []byte("422 unprocessable entity")

// concepts is the table of rows that match concepts, for servers and checks without a row of their own.
const concepts = "common"

// doubt is the table of a row of concepts that another clause of the text contradicts.
const doubt = concepts + ", doubtful"

// aboutRequest contains the classes in which a match of concepts is a guess: with a provider left out, 87 % are right, and 95 % of
// the matches of the other classes, such as credit and length (TestLeaveOneProviderOut).
var aboutRequest = map[string]bool{"tool_pairing": true, "tool_shape": true, "role_order": true, "message_shape": true, "reasoning": true, "request": true}

// known returns a Cause with the class of id.
func known(id, how, by, rule string) Cause {
	return Cause{ID: id, Class: registry[id].class, Known: how, StatedBy: by, Rule: rule}
}

// stated returns the cause of r, the row that matched the error text, and whether the violated rules in found confirm or
// contradict it.
func stated(r *row, family string, found []string) Cause {
	c := known(r.cause, Stated, family, r.rule)
	if r.guess || r.weak || family == doubt || family == concepts && aboutRequest[c.Class] {
		c.Known = Guessed
	}
	if family == doubt {
		c.StatedBy = concepts
	}
	rules := rulesOf[r.cause]
	if registry[r.cause].partly {
		rules = nil
	}
	for _, f := range found {
		if slices.Contains(rules, f) {
			c.Known, c.Rule = Both, f
			return c
		}
	}
	for _, f := range found {
		if slices.Contains(r.openRules, f) {
			return known(OfRule(f), Both, family, f)
		}
	}
	agree := registry[r.cause].also
	for _, f := range found {
		if slices.Contains(r.agreeRules, f) || slices.Contains(agree, f) {
			c.Known, c.Rule = Both, f
			return c
		}
	}
	// A cause may be wider than its only rule: an invalid schema is not a violation of the limit of tools.
	if c.Rule == "" && len(rules) == 1 && rules[0] == c.ID {
		c.Rule = c.ID
	}
	// A request may violate a rule but fail because of a bad key, so only two different defects of the history conflict.
	if len(found) > 0 && len(rules) > 0 {
		if c.Known == Guessed { // the request proves more than a guess
			return known(OfRule(found[0]), Inferred, "", found[0])
		}
		c.Known = Conflict
		for _, f := range found {
			if id := OfRule(f); id != "" && c.Other == "" {
				c.Other = id
			}
		}
	}
	return c
}

// match returns the first row that matches the normal form of a text, and the name of its table.
func (w *wordings) match(text []byte, in Input) (*row, string) {
	if len(text) == 0 {
		return nil, ""
	}
	var g grams
	g.add(text)
	own := familyOf[in.Variant]
	for _, first := range [...]bool{true, false} {
		for _, t := range w.families {
			if (t.family == own) != first {
				continue
			}
			if r := t.match(text, &g, in.Provider); r != nil && r.cause == unexplained {
				return nil, ""
			} else if r != nil {
				return r, t.family
			}
		}
	}
	var s scan
	s.read(w.lexicon, text)
	if in.Log {
		s.keepRefusals(text)
	}
	r, doubtful := w.common.fitting(&s, in.Status)
	switch {
	case r == nil || r.cause == unexplained:
		return nil, ""
	case doubtful:
		return r, doubt
	}
	return r, w.common.family
}

// fitting returns the first row whose condition a clause of s meets. It is doubtful in two cases: if it is about a limit or a filter,
// and the same clause states a fault of the request as well, as in "unknown parameter billing_mode"; and if it is about the account,
// the provider answered 400 or 422, and another clause states a fault of the request: a client may add what it believes about the
// account to the provider's answer, as in "authentication failed (400: …)".
func (t *table) fitting(s *scan, status int) (first *row, doubtful bool) {
	clause, rejected := 0, s.n > 1 && (status == 400 || status == 422)
	for i := range t.rows {
		r := &t.rows[i]
		if r.status != 0 && r.status != status || first != nil && (r.weak || !r.aboutRequest) {
			continue
		}
		at := r.condition.clauseOf(s)
		switch {
		case at < 0:
		case first == nil && (r.limit || r.access && rejected):
			first, clause = r, at
		case first == nil:
			return r, false
		case at == clause && first.limit, at != clause && first.access && rejected:
			return first, true
		}
	}
	return first, false
}

func (t *table) match(text []byte, g *grams, provider string) *row {
	for i := range t.rows {
		r := &t.rows[i]
		if g.contain(r.grams) && (r.only == "" || strings.EqualFold(r.only, provider)) && contains(text, r.phrases) {
			return r
		}
	}
	return nil
}

// contains reports whether text contains phrases in this order.
func contains(text []byte, phrases [][]byte) bool {
	for _, phrase := range phrases {
		at := bytes.Index(text, phrase)
		if at < 0 {
			return false
		}
		text = text[at+len(phrase):]
	}
	return true
}

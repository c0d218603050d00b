package cause

import (
	"bytes"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// How a Cause is known.
const (
	Stated   = "stated"   // the answer's text or status says it
	Inferred = "inferred" // the answer does not say; the request breaks a rule that its judge is known to enforce
	Both     = "both"     // the answer says it and the request shows it
	Conflict = "conflict" // the answer names one defect of the history, the request shows others
	None     = "none"     // nobody says
)

// Causes that Classify decides without a table.
const (
	unexplained = "unexplained"
	noResponse  = "no_response"
	streamError = "stream_error"
	serverError = "server_error"
)

// Input is what is known of a failed exchange.
type Input struct {
	Status  int           // HTTP status; 0 when no answer came
	Text    []byte        // the error as found: JSON, an exception's string, a log line; 4 KiB of it are read
	Rules   []string      // ids of the rules whose violations the judge was expected to reject, in rule order
	Variant facts.Variant // the judge; its own wordings are tried first

	// Provider is who answered, as the caller names it: some say one thing and mean another. "" when nobody says.
	Provider string
}

// A Cause is why an exchange failed.
type Cause struct {
	ID       string // in the closed set of IDs
	Class    string // tool_pairing, tool_shape, …
	Known    string // Stated, Inferred, Both, Conflict, None
	Other    string // Conflict: the cause that the request shows; else ""
	StatedBy string // the table that knows the wording, such as "openai"; "status" when only the status says it; "" otherwise
	Server   string // who wrote the text, where its spelling shows it, such as "deepseek"; else ""
	Gateway  string // who passed it on, where the text shows it, such as "litellm"; else ""
	Rule     string // the violated rule that shows the cause; the rule that the text names when none was found; else ""
}

// A row maps a wording to a cause, by its words or by what it talks about. Words are phrases joined by " … " that stand
// in this order in the normal form.
type row struct {
	words  string
	when   string // the condition that a clause meets; see newCondition
	cause  string
	rule   string // the rule that the text names, if it is not any of the cause's
	open   string // rules: the wording also fits these; when one of them is found, its cause is taken
	also   string // rules that this wording agrees with, besides those of the cause
	weak   bool   // says no more than that it failed: what the request shows goes first
	only   string // the provider that means this by it
	source string // where the wording was seen; in common, whose wordings showed what the row says

	phrases    [][]byte
	grams      []uint16 // of all phrases
	condition  condition
	openRules  []string
	agreeRules []string
}

// A table is the wordings of one family of providers. The first row that fits is taken.
type table struct {
	family string
	rows   []row
}

// wordings are the tables in the order in which they are tried, after the judge's own.
type wordings struct {
	families []*table
	common   *table
}

var all = &wordings{families: []*table{misleading, openAI, deepSeek, qwen, gemini, anthropic, mistral, hosts}, common: common}

// familyOf is whose wordings a variant uses before all others.
var familyOf = map[facts.Variant]string{
	facts.OpenAI: "openai", facts.Azure: "openai", facts.DeepSeek: "deepseek", facts.DeepSeekResponses: "deepseek", facts.Qwen: "qwen",
	facts.GeminiOpenAI: "gemini", facts.GeminiAPI: "gemini", facts.VertexGemini: "gemini",
	facts.AnthropicAPI: "anthropic", facts.VertexAnthropic: "anthropic", facts.BedrockAPI: "anthropic",
	facts.Mistral: "mistral", facts.Groq: "hosts", facts.XAI: "hosts", facts.Together: "hosts", facts.Fireworks: "hosts",
	facts.Kimi: "hosts", facts.GLM: "hosts", facts.MiniMax: "hosts", facts.CohereAPI: "hosts", facts.Ollama: "hosts",
	facts.VLLM: "hosts", facts.SGLang: "hosts", facts.LlamaCPP: "hosts",
}

func newTable(family string, rows []row) *table {
	for i := range rows {
		r := &rows[i]
		if r.when != "" {
			c, err := newCondition(lexicon, r.when)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			r.condition = c
		} else {
			for phrase := range strings.SplitSeq(r.words, " … ") {
				p := normalise(nil, []byte(phrase))
				r.phrases, r.grams = append(r.phrases, p), append(r.grams, gramsOf(p)...)
			}
		}
		r.openRules, r.agreeRules = strings.Fields(r.open), strings.Fields(r.also)
		if r.rule != "" {
			r.agreeRules = append(r.agreeRules, r.rule)
		}
	}
	return &table{family: family, rows: rows}
}

// Classify says why an exchange failed.
func Classify(in Input) Cause {
	var buf [maxText + maxEdges]byte
	text := normalise(buf[:0], in.Text)
	c := classify(in, all, text)
	c.Server, c.Gateway = writtenBy(in.Text, text)
	return c
}

func classify(in Input, w *wordings, text []byte) Cause {
	r, family := w.match(text, in.Variant, in.Provider)
	if in.Status == 0 {
		// The text is the client's own error. Only what a server says about a request counts.
		if r == nil || registry[r.cause].Class == "provider" {
			return known(noResponse, Stated, "status", "")
		}
	}
	if r != nil && !r.weak {
		return stated(r, family, in.Rules)
	}
	switch in.Status {
	case 401, 403:
		return known("auth", Stated, "status", "")
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
		if id := ofRule[rule]; id != "" {
			return known(id, Inferred, "", rule)
		}
	}
	switch {
	case r != nil && r.cause != serverError:
		return stated(r, family, nil) // a proxy or a server that cannot do it says 5xx, too
	case in.Status >= 500:
		return known(serverError, Stated, "status", "")
	case r != nil:
		return stated(r, family, nil)
	case in.Status < 400:
		return known(streamError, Stated, "status", "")
	}
	return known(unexplained, None, "", "")
}

// known is a Cause with its class.
func known(id, how, by, rule string) Cause {
	return Cause{ID: id, Class: registry[id].Class, Known: how, StatedBy: by, Rule: rule}
}

// stated weighs what the text says against what the request shows.
func stated(r *row, family string, found []string) Cause {
	c := known(r.cause, Stated, family, r.rule)
	rules := registry[r.cause].Rules
	for _, f := range found {
		if slices.Contains(rules, f) {
			c.Known, c.Rule = Both, f
			return c
		}
	}
	for _, f := range found {
		if slices.Contains(r.openRules, f) {
			return known(ofRule[f], Both, family, f)
		}
	}
	agree := registry[r.cause].also
	for _, f := range found {
		if slices.Contains(r.agreeRules, f) || slices.Contains(agree, f) {
			c.Known, c.Rule = Both, f
			return c
		}
	}
	if c.Rule == "" && len(rules) == 1 {
		c.Rule = rules[0]
	}
	// A request may break a rule and fail for its bad key: only two different defects of the history contradict.
	if len(found) > 0 && len(rules) > 0 {
		c.Known = Conflict
		for _, f := range found {
			if id := ofRule[f]; id != "" && c.Other == "" {
				c.Other = id
			}
		}
	}
	return c
}

// match returns the first row that fits, and whose it is.
func (w *wordings) match(text []byte, v facts.Variant, provider string) (*row, string) {
	if len(text) == 0 {
		return nil, ""
	}
	var g grams
	g.add(text)
	own := familyOf[v]
	for _, first := range [...]bool{true, false} {
		for _, t := range w.families {
			if (t.family == own) != first {
				continue
			}
			if r := t.match(text, &g, provider); r != nil {
				return r, t.family
			}
		}
	}
	var s scan
	s.read(lexicon, text)
	for i := range w.common.rows {
		if r := &w.common.rows[i]; r.condition.fits(&s) {
			return r, w.common.family
		}
	}
	return nil, ""
}

func (t *table) match(text []byte, g *grams, provider string) *row {
rows:
	for i := range t.rows {
		if !g.hold(t.rows[i].grams) || t.rows[i].only != "" && !strings.EqualFold(t.rows[i].only, provider) {
			continue
		}
		rest := text
		for _, phrase := range t.rows[i].phrases {
			at := bytes.Index(rest, phrase)
			if at < 0 {
				continue rows
			}
			rest = rest[at+len(phrase):]
		}
		return &t.rows[i]
	}
	return nil
}

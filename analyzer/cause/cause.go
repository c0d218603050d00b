package cause

import (
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
	Text    []byte        // the error as found: JSON, an exception's string, a log line; the first 4 KiB are read
	Rules   []string      // ids of the rules whose violations the judge was expected to reject, in rule order
	Variant facts.Variant // the judge; its own wordings are tried first
}

// A Cause is why an exchange failed.
type Cause struct {
	ID       string // in the closed set of IDs
	Class    string // tool_pairing, tool_shape, …
	Known    string // Stated, Inferred, Both, Conflict, None
	StatedBy string // whose wording the text is, such as "openai"; "status" when only the status says it; "" otherwise
	Rule     string // the violated rule that shows the cause; the rule that the text names when none was found; else ""
}

// A row maps a wording to a cause. Words are phrases joined by " … " that stand in this order in the normal form.
type row struct {
	words  string
	cause  string
	rule   string // the rule that the text names, if it is not any of the cause's
	open   string // rules: the wording also fits these; when one of them is found, its cause is taken
	also   string // rules that this wording agrees with, besides those of the cause
	source string // where the wording was seen

	phrases    []string
	grams      []uint16 // of all phrases
	openRules  []string
	agreeRules []string
}

// A table is the wordings of one family of providers. The first row that fits is taken.
type table struct {
	family string
	rows   []row
}

// tables in the order in which they are tried, after the judge's own.
var tables = []*table{openAI, deepSeek, qwen, gemini, anthropic, mistral, hosts, common}

// familyOf is whose wordings a variant uses before all others.
var familyOf = map[facts.Variant]*table{
	facts.OpenAI: openAI, facts.Azure: openAI, facts.DeepSeek: deepSeek, facts.Qwen: qwen, facts.GeminiOpenAI: gemini,
	facts.Mistral: mistral, facts.Groq: hosts, facts.XAI: hosts, facts.Together: hosts, facts.Fireworks: hosts,
	facts.Kimi: hosts, facts.GLM: hosts, facts.MiniMax: hosts, facts.Ollama: hosts, facts.VLLM: hosts, facts.SGLang: hosts,
	facts.LlamaCPP: hosts,
}

func newTable(family string, rows []row) *table {
	for i := range rows {
		r := &rows[i]
		for phrase := range strings.SplitSeq(r.words, " … ") {
			p := string(normalise(nil, []byte(phrase)))
			r.phrases, r.grams = append(r.phrases, p), append(r.grams, gramsOf(p)...)
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
	var buf [maxText]byte
	text := string(normalise(buf[:0], in.Text))
	r, family := match(text, in.Variant)

	if in.Status == 0 {
		// The text is the client's own error. Only what a server says about a request counts.
		if r == nil || registry[r.cause].Class == "provider" {
			return known(noResponse, Stated, "status", "")
		}
	}
	if r != nil {
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
	case in.Status >= 500:
		return known(serverError, Stated, "status", "")
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
	}
	return c
}

// match returns the first row that fits, and whose it is.
func match(text string, v facts.Variant) (*row, string) {
	if text == "" {
		return nil, ""
	}
	var g grams
	g.add(text)
	own := familyOf[v]
	if own != nil {
		if r := own.match(text, &g); r != nil {
			return r, own.family
		}
	}
	for _, t := range tables {
		if t == own {
			continue
		}
		if r := t.match(text, &g); r != nil {
			return r, t.family
		}
	}
	return nil, ""
}

func (t *table) match(text string, g *grams) *row {
rows:
	for i := range t.rows {
		if !g.hold(t.rows[i].grams) {
			continue
		}
		rest := text
		for _, phrase := range t.rows[i].phrases {
			at := strings.Index(rest, phrase)
			if at < 0 {
				continue rows
			}
			rest = rest[at+len(phrase):]
		}
		return &t.rows[i]
	}
	return nil
}

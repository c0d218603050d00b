package explain

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// unknownStatus is the status of a record that does not state any; 0 means that no answer arrived.
const unknownStatus = -1

// A record is one failed call.
type record struct {
	id, provider string
	status       int
	text         []byte // the error text
	log          bool   // the text may contain more than an error
	failed       bool   // false if the answer contains no error
	request      []byte // request body or message array; empty if absent
	target       wire.Target
}

// errNoRecord is the error for JSON that explain does not recognise.
var errNoRecord = errors.New("no record: neither a body, a response, an error, a request nor a status")

// statusOf returns the HTTP status of an object, a number or a string.
func statusOf(f records.Fields) (status int, ok bool) {
	n, err := strconv.Atoi(strings.Trim(string(f["status"]), `"`))
	return n, err == nil && n >= 0 && n <= 999
}

// newRecord reads one record. It returns the id, if any, even together with an error.
func newRecord(text []byte) (*record, error) {
	var f records.Fields
	_ = json.Unmarshal(text, &f) // other JSON types have no members
	r := &record{provider: f.Text("provider"), failed: true}
	if f.Has("id") {
		r.id = string(records.Unquote(f["id"]))
	}
	if f.Has("request") {
		r.request = records.Unquote(f["request"])
	}
	status, ok := statusOf(f)
	if r.status = status; !ok {
		r.status = unknownStatus
	}
	r.target = r.targetOf(f)
	switch {
	case f.Has("body"):
		r.text = records.Unquote(f["body"])
		if e := streamError(r.target.Dialect, r.text); e != nil {
			r.text = e
		}
	case f.Has("response"):
		r.readAnswer(f)
	case f.Has("error") && (f.Has("request") || f.Has("url") || f.Has("provider")):
		r.text = records.Unquote(f["error"])
	case f.Has("error"):
		r.text = text // the value is an error body
	case !ok && !f.Has("request"):
		return r, errNoRecord
	}
	return r, nil
}

// readAnswer reads the error, if any, from the response of an exchange.
func (r *record) readAnswer(f records.Fields) {
	body := f.Body("response")
	a := scanAnswer(r.target.Dialect, body)
	switch {
	case r.status >= 400 || r.status == 0 || r.status == unknownStatus && a.Malformed:
		r.text = body
		if e := streamError(r.target.Dialect, body); e != nil {
			r.text = e
		}
	case len(a.Error) > 0 && !a.Malformed:
		r.text = a.Error
	default:
		r.failed = false
	}
}

// scanAnswer reads an answer. An unknown dialect is read as chat completions, whose error format is the most common.
func scanAnswer(d wire.Dialect, body []byte) facts.Response {
	if d == wire.Other || d == "" {
		d = wire.OpenAIChat
	}
	var a facts.Response
	_ = facts.ScanResponse(d, "", body, &a) // it supports every dialect except Other
	return a
}

// streamError returns the error at the end of an event stream, or nil. Earlier events do not state a cause.
func streamError(d wire.Dialect, text []byte) []byte {
	if !sse.IsStream(trim(text)) {
		return nil
	}
	if a := scanAnswer(d, text); len(a.Error) > 0 && !a.Malformed {
		return a.Error
	}
	return nil
}

// variant returns the variant for the names of a provider and an API, or OtherVariant if the provider is unknown.
func variant(provider, api string) wire.Variant {
	variants := variantsOf(provider)
	if d := wire.DialectNamed(api); d != "" {
		return variantFor(d, variants)
	}
	if len(variants) == 0 {
		return wire.OtherVariant
	}
	return variants[0]
}

// targetOf derives the target of the request from the URL, else from the provider, else from the model if its name
// identifies the vendor.
func (r *record) targetOf(f records.Fields) wire.Target {
	url, format := f.Text("url"), f.Text("format")
	if format == "" && url == "" {
		format = f.Text("api")
	}
	t := records.TargetOf(url, f.Text("model"), wire.DialectNamed(format), r.request)
	variants := variantsOf(r.provider)
	known := len(variants) > 0
	switch {
	case known && len(r.request) == 0 && url == "" && wire.DialectNamed(format) == "":
		t.Dialect, t.Variant = dialectOf(variants[0]), variants[0]
	case r.provider != "" && url == "" || known && t.Variant == wire.OtherVariant:
		t.Variant = variantFor(t.Dialect, variants)
	case url == "" && t.Dialect == wire.OpenAIChat && t.Variant == wire.OpenAI && !isOpenAIModel(t.Model):
		t.Variant = wire.OtherVariant
	}
	return t
}

// aliases contains further names of providers and gateways, in lower case without punctuation, by wire.Provider.Name.
var aliases = map[string]string{
	"azure.ai.openai": "azureopenai azureaiopenai",
	"qwen":            "dashscope qwendashscope alibaba",
	"gcp.gemini":      "google geminiapi",
	"gcp.vertex_ai":   "vertex vertexai googlevertex",
	"anthropic":       "claude",
	"aws.bedrock":     "amazonbedrock",
	"x_ai":            "grok",
	"together":        "togetherai",
	"fireworks":       "fireworksai",
	"moonshot_ai":     "moonshot",
	"glm":             "zhipu zhipuai zai bigmodel",
}

// providers maps the names of providers and variants, and aliases, to variants, at most one per dialect.
var providers = func() map[string][]wire.Variant {
	m := map[string][]wire.Variant{"geminiopenaicompat": {wire.GeminiOpenAI, wire.GeminiAPI}}
	for _, p := range wire.Providers {
		for _, name := range append(strings.Fields(aliases[p.Name]), normalize(p.Name)) {
			m[name] = p.Variants
		}
	}
	for _, p := range wire.Providers {
		for _, v := range p.Variants { // the variant itself is first in the list
			if name := normalize(string(v)); m[name] == nil {
				m[name] = append([]wire.Variant{v}, p.Variants...)
			}
		}
	}
	return m
}()

func variantsOf(provider string) []wire.Variant { return providers[normalize(provider)] }

// normalize removes case and punctuation from a name.
func normalize(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			return c
		}
		return -1
	}, name)
}

// variantFor returns the first variant that speaks d, else OtherVariant.
func variantFor(d wire.Dialect, variants []wire.Variant) wire.Variant {
	for _, v := range variants {
		if slices.Contains(d.Variants(), v) {
			return v
		}
	}
	return wire.OtherVariant
}

// dialectOf returns the first dialect that v speaks.
func dialectOf(v wire.Variant) wire.Dialect {
	for _, d := range wire.Dialects {
		if slices.Contains(d.Variants(), v) {
			return d
		}
	}
	return wire.Other
}

// isOpenAIModel reports whether model is the name of an OpenAI model.
func isOpenAIModel(model string) bool {
	for _, p := range []string{"gpt-", "chatgpt", "o1", "o3", "o4", "ft:gpt-"} {
		if strings.HasPrefix(strings.ToLower(model), p) {
			return true
		}
	}
	return false
}

package explain

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/ingest/wire"
)

// unknownStatus is the status of a record that has none; 0 says that no answer came.
const unknownStatus = -1

// A record is one failed call.
type record struct {
	id, provider string
	status       int
	text         []byte // the error; of an answer, what it says of it
	failed       bool   // false for an answer that tells no error
	request      []byte // a body or a bare array of messages; empty when there is none
	target       wire.Target
}

// errNoRecord is the error of a value that is JSON, and nothing that explain knows.
var errNoRecord = errors.New("no record: neither a body, a response, an error, a request nor a status")

// fields is a JSON object whose members have any type.
type fields map[string]json.RawMessage

func (f fields) has(key string) bool { return len(f[key]) > 0 && string(f[key]) != "null" }

func (f fields) text(key string) string {
	var s string
	_ = json.Unmarshal(f[key], &s) // another type is no text
	return s
}

// statusOf is the HTTP status of an object, a number or a string that holds one.
func statusOf(f fields) (status int, ok bool) {
	n, err := strconv.Atoi(strings.Trim(string(f["status"]), `"`))
	return n, err == nil && n >= 0 && n <= 999
}

// newRecord reads one record. Of one that cannot be read, too, the id is known where it has one.
func newRecord(text []byte) (*record, error) {
	var f fields
	_ = json.Unmarshal(text, &f) // another type has no members
	r := &record{provider: f.text("provider"), failed: true}
	if f.has("id") {
		r.id = string(lint.Unquoted(f["id"]))
	}
	if f.has("request") {
		r.request = lint.Unquoted(f["request"])
	}
	status, ok := statusOf(f)
	if r.status = status; !ok {
		r.status = unknownStatus
	}
	r.target = r.judge(f)
	switch {
	case f.has("body"):
		r.text = lint.Unquoted(f["body"])
		if e := inStream(r.target.Dialect, r.text); e != nil {
			r.text = e
		}
	case f.has("response"):
		r.answer(f)
	case f.has("error") && (f.has("request") || f.has("url") || f.has("provider")):
		r.text = lint.Unquoted(f["error"])
	case f.has("error"):
		r.text = text // it is itself the body
	case !ok && !f.has("request"):
		return r, errNoRecord
	}
	return r, nil
}

// answer takes the error from the response of an exchange, if it tells one.
func (r *record) answer(f fields) {
	body := lint.Unquoted(f["response"])
	if f.text("response_encoding") == "base64" {
		if raw, err := base64.StdEncoding.DecodeString(string(body)); err == nil {
			body = raw
		}
	}
	a := scanAnswer(r.target.Dialect, body)
	told := len(a.Error) > 0 && !a.Malformed
	switch {
	case r.status >= 400 || r.status == 0 || r.status == unknownStatus && a.Malformed:
		r.text = body
		if e := inStream(r.target.Dialect, body); e != nil {
			r.text = e
		}
	case told:
		r.text = a.Error
	default:
		r.failed = false
	}
}

// scanAnswer reads an answer; one of no dialect that is judged as one of chat completions, whose errors most others have.
func scanAnswer(d wire.Dialect, body []byte) facts.Response {
	if d == wire.Other || d == "" {
		d = wire.OpenAIChat
	}
	var a facts.Response
	_ = facts.ScanResponse(d, "", body, &a) // every dialect but Other is known to it
	return a
}

// inStream is the error that a stream of events ends with; nil for what is none or tells none. The events before it are
// the answer, which says nothing of it.
func inStream(d wire.Dialect, text []byte) []byte {
	start := string(trim(text[:min(len(text), 64)]))
	if !strings.HasPrefix(start, "data:") && !strings.HasPrefix(start, "event:") && !strings.HasPrefix(start, ":") {
		return nil
	}
	if a := scanAnswer(d, text); len(a.Error) > 0 && !a.Malformed {
		return a.Error
	}
	return nil
}

// Variant is who judges what is sent to a provider, by the name that people give it and, where it has several APIs, by that
// of the API; OtherVariant for a provider that nobody knows.
func Variant(provider, api string) wire.Variant {
	own := providers[providerKey(provider)]
	if d := wire.DialectNamed(api); d != "" {
		return variantOf(d, own)
	}
	if len(own) == 0 {
		return wire.OtherVariant
	}
	return own[0]
}

// judge says who judged the request. The URL decides. Where it names nobody's own host, the record's provider does; with
// neither, the model where its name tells the maker.
func (r *record) judge(f fields) wire.Target {
	url, format := f.text("url"), f.text("format")
	if format == "" && url == "" {
		format = f.text("api")
	}
	t := lint.Target(url, f.text("model"), wire.DialectNamed(format), r.request)
	own, known := providers[providerKey(r.provider)]
	switch {
	case known && len(r.request) == 0 && url == "" && wire.DialectNamed(format) == "":
		t.Dialect, t.Variant = dialectOf(own[0]), own[0]
	case r.provider != "" && url == "" || known && t.Variant == wire.OtherVariant:
		t.Variant = variantOf(t.Dialect, own)
	case url == "" && t.Dialect == wire.OpenAIChat && t.Variant == wire.OpenAI && !ofOpenAI(t.Model):
		t.Variant = wire.OtherVariant
	}
	return t
}

// providers maps what people call a provider, without case and punctuation, to its variants, at most one a dialect.
var providers = func() map[string][]wire.Variant {
	m := map[string][]wire.Variant{}
	for names, own := range map[string][]wire.Variant{
		"openai":                                                {wire.OpenAI},
		"azure azureopenai azureaiopenai":                       {wire.Azure},
		"deepseek deepseekresponses":                            {wire.DeepSeek, wire.DeepSeekResponses},
		"qwen dashscope qwendashscope alibaba":                  {wire.Qwen},
		"gemini google gcpgemini geminiapi":                     {wire.GeminiAPI, wire.GeminiOpenAI},
		"geminiopenai geminiopenaicompat":                       {wire.GeminiOpenAI, wire.GeminiAPI},
		"vertex vertexai gcpvertexai vertexgemini googlevertex": {wire.VertexGemini, wire.GeminiOpenAI, wire.VertexAnthropic},
		"vertexanthropic":                                       {wire.VertexAnthropic},
		"anthropic claude":                                      {wire.AnthropicAPI},
		"bedrock awsbedrock amazonbedrock":                      {wire.BedrockAPI},
		"cohere":                                                {wire.CohereAPI},
		"mistral mistralai":                                     {wire.Mistral},
		"groq":                                                  {wire.Groq},
		"xai grok":                                              {wire.XAI},
		"together togetherai":                                   {wire.Together},
		"fireworks fireworksai":                                 {wire.Fireworks},
		"openrouter":                                            {wire.OpenRouter},
		"kimi moonshot moonshotai":                              {wire.Kimi},
		"glm zhipu zhipuai zai bigmodel":                        {wire.GLM},
		"minimax":                                               {wire.MiniMax},
		"ollama":                                                {wire.Ollama},
		"vllm":                                                  {wire.VLLM},
		"sglang":                                                {wire.SGLang},
		"llamacpp":                                              {wire.LlamaCPP},
		"litellm":                                               {wire.LiteLLM},
	} {
		for name := range strings.FieldsSeq(names) {
			m[name] = own
		}
	}
	return m
}()

// providerKey is a provider's name without case and punctuation.
func providerKey(name string) string {
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

// variantOf is the one of own that speaks d; OtherVariant when none does.
func variantOf(d wire.Dialect, own []wire.Variant) wire.Variant {
	for _, v := range own {
		if slices.Contains(d.Variants(), v) {
			return v
		}
	}
	return wire.OtherVariant
}

// dialectOf is the first dialect that v speaks.
func dialectOf(v wire.Variant) wire.Dialect {
	for _, d := range wire.Dialects {
		if variantOf(d, []wire.Variant{v}) == v {
			return d
		}
	}
	return wire.Other
}

// ofOpenAI reports whether OpenAI made the model that is called so.
func ofOpenAI(model string) bool {
	for _, p := range []string{"gpt-", "chatgpt", "o1", "o3", "o4", "ft:gpt-"} {
		if strings.HasPrefix(strings.ToLower(model), p) {
			return true
		}
	}
	return false
}

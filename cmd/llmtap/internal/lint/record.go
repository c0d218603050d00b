package lint

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A record is one history to check.
type record struct {
	id     string
	url    string
	model  string
	named  wire.Dialect // by its format, or by its api where it has no URL; "" when it does not say
	ollama bool         // that names Ollama's own API
	status int
	body   []byte // a request, or an array of messages
	bare   bool   // a conversation of which only the messages are recorded

	exchange bool
	response []byte
	failed   bool // the record names an error
	// Labels of the exchange, "" where the record does not say.
	service, conversation, instance, run string
}

// errNoHistory is the error of a value that is JSON, and nothing that lint knows.
var errNoHistory = errors.New("no history: not a request body, a message array, an exchange or a conversation")

// fields is a JSON object whose members have any type.
type fields map[string]json.RawMessage

func (f fields) text(key string) string {
	var s string
	_ = json.Unmarshal(f[key], &s) // another type is no text
	return s
}

func (f fields) number(key string) (n int, ok bool) {
	err := json.Unmarshal(f[key], &n)
	return n, err == nil && len(f[key]) > 0 && string(f[key]) != "null"
}

// label is text, or another value's JSON: whoever wrote a log chose the types, and an id that is a number is an id.
func (f fields) label(key string) string {
	var t recorded.Text
	_ = json.Unmarshal(f[key], &t) // what is absent is ""
	return string(t)
}

// body is a recorded body, which may be base64.
func (f fields) body(key string) []byte {
	b := Unquoted(f[key])
	if f.text(key+"_encoding") == "base64" {
		if raw, err := base64.StdEncoding.DecodeString(string(b)); err == nil {
			return raw
		}
	}
	return b
}

func (f fields) has(key string) bool { return len(f[key]) > 0 && string(f[key]) != "null" }

// records are the values that one JSON value of a file is: itself, or what it is an array of. An array is a list of
// records when its first element is one.
func records(v Value) []Value {
	if v.Err != nil || len(v.Text) == 0 || v.Text[0] != '[' {
		return []Value{v}
	}
	d := json.NewDecoder(bytes.NewReader(v.Text))
	if _, err := d.Token(); err != nil {
		return []Value{v}
	}
	var all []Value
	line, counted := v.Line, 0
	for d.More() {
		var text json.RawMessage
		if d.Decode(&text) != nil {
			return []Value{v}
		}
		if len(all) == 0 && !isRecord(text) {
			return []Value{v}
		}
		start := int(d.InputOffset()) - len(text)
		line += bytes.Count(v.Text[counted:start], []byte("\n"))
		counted = start
		all = append(all, Value{Line: line, Text: text})
	}
	if len(all) == 0 {
		return []Value{v}
	}
	return all
}

// isRecord reports whether an element of an array is a record; else it is a message of one.
func isRecord(text []byte) bool {
	var f fields
	return json.Unmarshal(text, &f) == nil &&
		(f.has("request") || f.has("messages") || f.has("contents") || f.has("input") && !f.has("type"))
}

// newRecord reads one record.
func newRecord(text []byte) (*record, error) {
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] == '[' {
		return &record{body: text}, nil
	}
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, errNoHistory
	}
	r := &record{id: strings.Trim(string(f["id"]), `"`), url: f.text("url"), model: f.text("model"), body: text}
	r.status, _ = f.number("status")
	format := f.text("format")
	if wire.DialectNamed(format) == "" && r.url == "" {
		format = f.text("api")
	}
	r.named, r.ollama = wire.DialectNamed(format), format == "ollama.chat"
	_, r.exchange = f["request"]
	switch {
	case r.exchange:
		r.body, r.response = f.body("request"), f.body("response")
		r.service, r.instance, r.run, r.failed = f.label("service"), f.label("instance"), f.label("run_id"), f.label("error") != ""
		r.conversation = cmp.Or(f.label("conversation"), f.label("conversation_id"))
	case f.text("format") != "":
		if !f.has("messages") {
			return nil, errNoHistory
		}
		r.body = r.whole(f)
	case !f.has("messages") && !f.has("contents") && !f.has("input"):
		return nil, errNoHistory
	}
	return r, nil
}

// Unquoted is a body that was recorded as JSON, or as a string that holds it.
func Unquoted(raw json.RawMessage) []byte {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}

// whole is the request of a conversation: its messages without the answer, when the record says where that starts,
// and what else the record has of the request.
func (r *record) whole(f fields) []byte {
	messages := f["messages"]
	var all []json.RawMessage
	if n, ok := f.number("n_request"); ok && json.Unmarshal(messages, &all) == nil && n >= 0 && n < len(all) {
		messages = mustMarshal(all[:n])
	}
	body := map[string]json.RawMessage{r.named.Descriptor().Messages: messages}
	r.bare = !f.has("tools")
	for _, key := range []string{"model", "tools", "system", "previous_response_id"} {
		if f.has(key) {
			body[key] = f[key]
		}
	}
	if body["store"] = f["store"]; !f.has("store") {
		body["store"] = json.RawMessage("false") // not recorded: no rule may build on what the provider stored
	}
	if f.has("conversation_state") {
		body["conversation"] = f["conversation_state"]
	}
	return mustMarshal(body)
}

// mustMarshal writes what was JSON before.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("marshal JSON that was just read: " + err.Error())
	}
	return b
}

func (r *record) target() wire.Target {
	t := Target(r.url, r.model, r.named, r.body)
	if r.ollama && t.Dialect == wire.OpenAIChat {
		t.Variant, t.Native = wire.Ollama, true
	}
	return t
}

// Target says who judges a request, or a bare array of messages: the URL, else the dialect that is named, "" if none is,
// else the body. Where nothing names a provider, the model's maker does, else the first variant of the dialect.
func Target(url, model string, named wire.Dialect, body []byte) wire.Target {
	if len(body) > 0 && body[0] == '[' {
		body = append(append([]byte(`{"`+listOf(body)+`":`), body...), '}')
	}
	t := facts.Detect(url, model, body)
	if named != "" && t.Dialect != named && facts.Detect(url, model, nil).Dialect == wire.Other { // the URL does not say
		t.Dialect, t.Variant, t.Native = named, wire.OtherVariant, false
	}
	if t.Dialect == wire.Other && url == "" && named == "" {
		t.Dialect = wire.OpenAIChat
	}
	if url == "" && t.Dialect != wire.Other && !t.Native {
		t.Variant = maker(t)
	}
	return t
}

// listOf is the member that an array of messages would be of a request.
func listOf(array []byte) string {
	var elements []struct {
		Role, Type string
		Parts      json.RawMessage
	}
	_ = json.Unmarshal(array, &elements) // elements of other types say nothing
	for _, e := range elements {
		switch {
		case len(e.Parts) > 0:
			return "contents"
		case e.Type != "" && (e.Role == "" || e.Type == "message"):
			return "input"
		}
	}
	return "messages"
}

// makers maps the start of a model's name to its maker's own endpoint.
var makers = []struct {
	prefix  string
	variant wire.Variant
}{
	{"deepseek", wire.DeepSeek},
	{"gemini", wire.GeminiOpenAI},
	{"mistral", wire.Mistral},
	{"codestral", wire.Mistral},
	{"magistral", wire.Mistral},
	{"ministral", wire.Mistral},
	{"grok", wire.XAI},
	{"kimi", wire.Kimi},
	{"moonshot", wire.Kimi},
	{"glm", wire.GLM},
	{"qwen", wire.Qwen},
	{"minimax", wire.MiniMax},
}

func maker(t wire.Target) wire.Variant {
	variants := t.Dialect.Variants()
	if t.Dialect == wire.OpenAIChat {
		model := strings.ToLower(t.Model)
		for _, m := range makers {
			if strings.HasPrefix(model, m.prefix) {
				return m.variant
			}
		}
	}
	return variants[0]
}

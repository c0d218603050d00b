package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A record is one history to check.
type record struct {
	id     string
	url    string
	model  string
	named  wire.Dialect // dialect from the format or, without a URL, from the api; "" if unknown
	ollama bool         // the format is Ollama's own API
	status int
	body   []byte // a request, or an array of messages
	bare   bool   // a conversation that lacks the tools of its request

	unknown string // the format, if it is unknown and nothing else names the dialect

	exchange bool
	response []byte
	failed   bool // the record contains an error
	// Labels of the exchange; "" if absent.
	service, conversation, instance, run string
}

// errNoHistory is the error for JSON that lint does not recognise.
var errNoHistory = errors.New("no history: not a request body, a message array, an exchange or a conversation")

// split returns the records of a JSON value: the elements of an array of records, else the value.
func split(v records.Value) []records.Value {
	if v.Err != nil || len(v.Text) == 0 || v.Text[0] != '[' {
		return []records.Value{v}
	}
	d := json.NewDecoder(bytes.NewReader(v.Text))
	if _, err := d.Token(); err != nil {
		return []records.Value{v}
	}
	var all []records.Value
	line, counted := v.Line, 0
	for d.More() {
		var text json.RawMessage
		if d.Decode(&text) != nil {
			return []records.Value{v}
		}
		if len(all) == 0 && !isRecord(text) {
			return []records.Value{v}
		}
		start := int(d.InputOffset()) - len(text)
		line += bytes.Count(v.Text[counted:start], []byte("\n"))
		counted = start
		all = append(all, records.Value{Line: line, Text: text})
	}
	if len(all) == 0 {
		return []records.Value{v}
	}
	return all
}

// isRecord reports whether an element of an array is a record, not a message.
func isRecord(text []byte) bool {
	var f records.Fields
	return json.Unmarshal(text, &f) == nil &&
		(f.Has("request") || f.Has("messages") || f.Has("contents") || f.Has("input") && !f.Has("type"))
}

// newRecord reads one record. forced is the target of all records, or nil.
func newRecord(text []byte, forced *wire.Target) (*record, error) {
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] == '[' {
		return &record{body: text}, nil
	}
	var f records.Fields
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, errNoHistory
	}
	r := &record{id: strings.Trim(string(f["id"]), `"`), url: f.Text("url"), model: f.Text("model"), body: text}
	r.status, _ = f.Number("status")
	format := f.Text("format")
	if format == "json" {
		format = "" // a parameter of Ollama's requests
	}
	conversation := format != ""
	if wire.DialectNamed(format) == "" && r.url == "" {
		format = f.Text("api")
	}
	r.named, r.ollama = wire.DialectNamed(format), format == "ollama.chat"
	if conversation && r.named == "" && r.url == "" {
		if r.unknown = f.Text("format"); forced != nil {
			r.named, r.unknown = forced.Dialect, ""
		}
	}
	_, r.exchange = f["request"]
	switch {
	case r.exchange:
		r.body, r.response = f.Body("request"), f.Body("response")
		r.service, r.instance, r.run, r.failed = f.Label("service"), f.Label("instance"), f.Label("run_id"), f.Label("error") != ""
		r.conversation = cmp.Or(f.Label("conversation"), f.Label("conversation_id"))
	case conversation:
		if !f.Has("messages") {
			return nil, errNoHistory
		}
		r.body = r.conversationRequest(f)
	case !f.Has("messages") && !f.Has("contents") && !f.Has("input"):
		return nil, errNoHistory
	}
	return r, nil
}

// conversationRequest returns the request of a conversation: its messages, without the answer if its position is recorded,
// and the recorded parameters.
func (r *record) conversationRequest(f records.Fields) []byte {
	messages := f["messages"]
	var all []json.RawMessage
	if n, ok := f.Number("n_request"); ok && json.Unmarshal(messages, &all) == nil && n >= 0 && n < len(all) {
		messages = mustMarshal(all[:n])
	}
	body := map[string]json.RawMessage{r.named.Descriptor().Messages: messages}
	r.bare = !f.Has("tools")
	for _, key := range []string{"model", "tools", "system", "previous_response_id"} {
		if f.Has(key) {
			body[key] = f[key]
		}
	}
	if body["store"] = f["store"]; !f.Has("store") {
		body["store"] = json.RawMessage("false") // store was not recorded; rules must not rely on state stored by the provider
	}
	if f.Has("conversation_state") {
		body["conversation"] = f["conversation_state"]
	}
	return mustMarshal(body)
}

// mustMarshal encodes values that were decoded from JSON.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: marshal decoded JSON: " + err.Error())
	}
	return b
}

func (r *record) target() wire.Target {
	t := records.TargetOf(r.url, r.model, r.named, r.body)
	if r.ollama && t.Dialect == wire.OpenAIChat {
		t.Variant, t.Native = wire.Ollama, true
	}
	return t
}

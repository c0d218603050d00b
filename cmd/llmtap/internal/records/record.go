package records

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// A Record is one recorded history: a request body, an array of messages, an exchange, a request of a batch or a conversation.
type Record struct {
	ID     string
	URL    string
	Status int
	Body   []byte // a request, or an array of messages
	Bare   bool   // a conversation that lacks the tools of its request

	Unknown string // the format, if it is unknown and nothing else names the dialect

	Exchange bool
	Response []byte
	Fault    string // the error of a call without a usable answer; "" if none
	// Labels of the exchange; "" if absent.
	Service, Conversation, Instance, Run string

	model  string
	named  wire.Dialect // dialect from the format or, without a URL, from the api; "" if unknown
	ollama bool         // the format is Ollama's own API
}

// ErrNoHistory is the error for JSON that is not a record.
var ErrNoHistory = errors.New("no history: not a request body, a message array, a call or a conversation")

// Split returns the records of a JSON value: the elements of an array of records, else the value.
func Split(v Value) []Value {
	if v.Err != nil || len(v.Text) == 0 || v.Text[0] != '[' {
		return []Value{v}
	}
	var all []Value
	line, counted := v.Line, 0
	for start, text := range jsonscan.Elements(v.Text) {
		if len(all) == 0 && (!isRecord(text) || !jsonscan.Valid(v.Text)) {
			break
		}
		line += bytes.Count(v.Text[counted:start], []byte("\n"))
		counted = start
		all = append(all, Value{Line: line, Entry: v.Entry, Text: text})
	}
	if len(all) == 0 {
		return []Value{v}
	}
	return all
}

// isRecord reports whether an element of an array is a record, not a message.
func isRecord(text []byte) bool {
	f, ok := Parse(text)
	return ok && (f.Has("request") || f.Has("messages") || f.Has("contents") || f.Has("custom_id") || f.Has("input") && !f.Has("type"))
}

// bufferBytes is the size of a new buffer of NewRecord.
const bufferBytes = 128 << 10

// NewRecord reads one record. forced is the target of all records, or nil. The request of a conversation is appended to
// buffer, which is replaced if it is full.
func NewRecord(text []byte, forced *wire.Target, buffer *[]byte) (*Record, error) {
	f, ok := Parse(text)
	if !ok {
		v := Value{Text: text}
		switch err := v.Check(); {
		case err != nil:
			return nil, err
		case text[0] != '[':
			return nil, ErrNoHistory
		}
		return &Record{Body: text}, nil
	}
	r := &Record{ID: strings.Trim(string(f["id"]), `"`), URL: f.Text("url"), model: f.Text("model"), Body: text}
	r.Status, _ = f.Number("status")
	format := f.Text("format")
	if format == "json" {
		format = "" // a parameter of Ollama's requests
	}
	conversation := format != ""
	if wire.DialectNamed(format) == "" && r.URL == "" {
		format = f.Text("api")
	}
	r.named, r.ollama = wire.DialectNamed(format), format == "ollama.chat"
	if conversation && r.named == "" && r.URL == "" {
		if r.Unknown = f.Text("format"); forced != nil {
			r.named, r.Unknown = forced.Dialect, ""
		}
	}
	_, r.Exchange = f["request"]
	r.Fault = f.Label("error")
	switch {
	case r.Exchange:
		r.Body = f.Body("request")
		if f.Has("response") {
			r.Response = f.Body("response")
		} else if a := f["answer"]; len(a) > 0 && a[0] != '[' { // of llmtap show
			r.Response = f.Body("answer")
		}
		r.Fault = cmp.Or(r.Fault, f.Label("error_text"))
		r.Service, r.Instance, r.Run = f.Label("service"), f.Label("instance"), f.Label("run_id")
		r.Conversation = cmp.Or(f.Label("conversation"), f.Label("conversation_id"))
	case f.Has("custom_id") && (f.Has("body") || f.Has("params")): // a request of a batch
		r.ID, r.Body, r.URL = f.Label("custom_id"), f["body"], recorded.BatchURL(r.URL)
		if f.Has("params") {
			r.Body, r.URL = f["params"], recorded.BatchURLAnthropic
		}
	case conversation:
		if !f.Has("messages") {
			return nil, ErrNoHistory
		}
		r.Body = r.conversationRequest(f, buffer)
	case !f.Has("messages") && !f.Has("contents") && !f.Has("input"):
		return nil, ErrNoHistory
	}
	return r, nil
}

// conversationRequest returns the request of a conversation: its messages, without the answer if its position is recorded,
// and the recorded parameters.
func (r *Record) conversationRequest(f Fields, buffer *[]byte) []byte {
	messages, open := f["messages"], false // whether messages lacks its closing bracket
	if n, ok := f.Number("n_request"); ok && n >= 0 {
		messages, open = firstElements(messages, n)
	}
	r.Bare = !f.Has("tools")
	store := f["store"]
	if !f.Has("store") {
		store = json.RawMessage("false") // store was not recorded; rules must not rely on state stored by the provider
	}
	if string(f["previous_response_id"]) == "true" { // a part of the history is on the server, under an id that was not recorded
		f["previous_response_id"] = json.RawMessage(`"unknown"`)
	}
	size := len(messages) + len(f["tools"]) + len(f["system"]) + len(f["model"]) + len(f["previous_response_id"]) + len(store) + len(f["conversation_state"]) + 128
	if cap(*buffer)-len(*buffer) < size {
		*buffer = make([]byte, 0, max(size, bufferBytes))
	}
	start := len(*buffer)
	body := append((*buffer)[start:], `{"`+r.named.Descriptor().Messages+`":`...)
	body = append(body, messages...)
	if open {
		body = append(body, ']')
	}
	for _, key := range []string{"model", "tools", "system", "previous_response_id"} {
		if f.Has(key) {
			body = append(append(body, `,"`+key+`":`...), f[key]...)
		}
	}
	body = append(append(body, `,"store":`...), store...)
	if f.Has("conversation_state") {
		body = append(append(body, `,"conversation":`...), f["conversation_state"]...)
	}
	body = append(body, '}')
	*buffer = (*buffer)[:start+len(body)]
	return slices.Clip(body)
}

// firstElements returns the first n elements of an array. open reports whether more elements follow, so that the result lacks
// its closing bracket; another value, or a shorter array, is unchanged.
func firstElements(array []byte, n int) (elements []byte, open bool) {
	end := 1
	for start, text := range jsonscan.Elements(array) {
		if n--; n < 0 {
			return array[:end], true
		}
		end = start + len(text)
	}
	return array, false
}

// Unjudged returns why no rules apply to r, or nil.
func (r *Record) Unjudged() error {
	switch {
	case r.Unknown != "":
		return fmt.Errorf("unknown format %q; --dialect sets the format", r.Unknown)
	case len(r.Body) == 0 || string(r.Body) == "null":
		return errors.New("the record has no request body")
	}
	return nil
}

// TargetFor returns the target whose rules apply: that of r, or forced if it is not nil. foreign reports that the provider of r is
// known to be another one.
func (r *Record) TargetFor(forced *wire.Target) (t wire.Target, foreign bool) {
	own := r.Target()
	if forced == nil {
		return own, false
	}
	t = *forced
	t.Model, t.Native = own.Model, own.Native && t.Variant == wire.Ollama
	return t, r.URL != "" && own.Variant != wire.OtherVariant && (own.Dialect != t.Dialect || own.Variant != t.Variant)
}

// Target returns the target of the request.
func (r *Record) Target() wire.Target {
	t := TargetOf(r.URL, r.model, r.named, r.Body)
	if r.ollama && t.Dialect == wire.OpenAIChat {
		t.Variant, t.Native = wire.Ollama, true
	}
	return t
}

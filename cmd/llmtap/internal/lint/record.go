package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/wire"
	"github.com/llmtap/llmtap/ingest/wire/jsonscan"
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

	foreign bool // the status is from another provider than the one whose rules apply

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
	var all []records.Value
	line, counted := v.Line, 0
	for start, text := range records.Elements(v.Text) {
		if len(all) == 0 && (!isRecord(text) || !jsonscan.Valid(v.Text)) {
			break
		}
		line += bytes.Count(v.Text[counted:start], []byte("\n"))
		counted = start
		all = append(all, records.Value{Line: line, Entry: v.Entry, Text: text})
	}
	if len(all) == 0 {
		return []records.Value{v}
	}
	return all
}

// isRecord reports whether an element of an array is a record, not a message.
func isRecord(text []byte) bool {
	f, ok := records.Parse(text)
	return ok && (f.Has("request") || f.Has("messages") || f.Has("contents") || f.Has("input") && !f.Has("type"))
}

// newRecord reads one record. forced is the target of all records, or nil. The request of a conversation is appended to
// buffer, which is replaced if it is full.
func newRecord(text []byte, forced *wire.Target, buffer *[]byte) (*record, error) {
	f, ok := records.Parse(text)
	if !ok {
		v := records.Value{Text: text}
		switch err := v.Check(); {
		case err != nil:
			return nil, err
		case text[0] != '[':
			return nil, errNoHistory
		}
		return &record{body: text}, nil
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
		if r.body = f.Body("request"); f.Has("response") {
			r.response = f.Body("response")
		}
		r.service, r.instance, r.run, r.failed = f.Label("service"), f.Label("instance"), f.Label("run_id"), f.Label("error") != ""
		r.conversation = cmp.Or(f.Label("conversation"), f.Label("conversation_id"))
	case conversation:
		if !f.Has("messages") {
			return nil, errNoHistory
		}
		r.body = r.conversationRequest(f, buffer)
	case !f.Has("messages") && !f.Has("contents") && !f.Has("input"):
		return nil, errNoHistory
	}
	return r, nil
}

// conversationRequest returns the request of a conversation: its messages, without the answer if its position is recorded,
// and the recorded parameters.
func (r *record) conversationRequest(f records.Fields, buffer *[]byte) []byte {
	messages, open := f["messages"], false // whether messages lacks its closing bracket
	if n, ok := f.Number("n_request"); ok && n >= 0 {
		messages, open = firstElements(messages, n)
	}
	r.bare = !f.Has("tools")
	store := f["store"]
	if !f.Has("store") {
		store = json.RawMessage("false") // store was not recorded; rules must not rely on state stored by the provider
	}
	size := len(messages) + len(f["tools"]) + len(f["system"]) + len(f["model"]) + len(f["previous_response_id"]) + len(store) + len(f["conversation_state"]) + 128
	if cap(*buffer)-len(*buffer) < size {
		*buffer = make([]byte, 0, max(size, batchBytes))
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
	for start, text := range records.Elements(array) {
		if n--; n < 0 {
			return array[:end], true
		}
		end = start + len(text)
	}
	return array, false
}

// refused returns the status with which the provider refused the request because of its contents, or 0.
func (r *record) refused() int {
	if r.status == http.StatusBadRequest || r.status == http.StatusUnprocessableEntity {
		return r.status
	}
	return 0
}

func (r *record) target() wire.Target {
	t := records.TargetOf(r.url, r.model, r.named, r.body)
	if r.ollama && t.Dialect == wire.OpenAIChat {
		t.Variant, t.Native = wire.Ollama, true
	}
	return t
}

package httpevents

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/nearest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Limits of one payload.
const (
	maxEvents   = 10_000
	maxWarnings = 20

	eventBytes = 2 << 10 // approximate memory of an event without its body
	maxError   = 4 << 10 // bytes of an error response that are stored if bodies are not captured, as in the hooks
)

// A Rejected event of a payload.
type Rejected struct {
	Event int    `json:"event"` // index in the payload, from 0
	Error string `json:"error"`
}

// A decoder decodes the events of one payload.
type decoder struct {
	payload *httpbody.Body
	now     time.Time
	client  string // address of the client

	count    int // events of the payload
	events   []*event.Event
	indexes  []int // of events in the payload
	rejected []Rejected
	unknown  map[string]bool // unknown members with a warning
	warnings []string
}

// An object is an event being decoded.
type object struct {
	d         *decoder
	index     int
	e         event.Event
	hasStatus bool
	hasBody   bool
	json      bool // the body is an object or array of the payload
}

func (d *decoder) warn(format string, args ...any) {
	if len(d.warnings) < maxWarnings {
		d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
	}
}

// decode decodes the payload. An error is one of the whole payload: an *httpbody.Error.
func (d *decoder) decode(contentType string) error {
	b := bytes.TrimPrefix(d.payload.Bytes, []byte("\xef\xbb\xbf"))
	var err error
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "application/json":
		err = d.json(b)
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		err = d.lines(b)
	default:
		return &httpbody.Error{
			Status:  http.StatusUnsupportedMediaType,
			Message: fmt.Sprintf("Content-Type %q is not application/json (an event or an array of events) or application/x-ndjson (an event per line)", clip(contentType)),
		}
	}
	if err == nil && d.count == 0 {
		err = malformed("the payload contains no event")
	}
	return err
}

func malformed(format string, args ...any) error {
	return &httpbody.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// json decodes an event or an array of events.
func (d *decoder) json(b []byte) error {
	i := jsonscan.Space(b, 0)
	if i == len(b) {
		return nil
	}
	array := b[i] == '['
	if !array && b[i] != '{' {
		return malformed("the payload is neither an event object nor an array of them")
	}
	if array {
		if i = jsonscan.Space(b, i+1); i < len(b) && b[i] == ']' {
			return nil
		}
	}
	for {
		end, ok := jsonscan.ValueEnd(b, i)
		if !ok {
			return notJSON(b, end)
		}
		if err := d.event(b[i:end]); err != nil {
			return err
		}
		i = jsonscan.Space(b, end)
		switch {
		case !array && i == len(b):
			return nil
		case !array:
			return malformed("the payload continues after the event at byte %d; for an event per line, send Content-Type application/x-ndjson", i)
		case i == len(b):
			return notJSON(b, i)
		case b[i] == ',':
			i = jsonscan.Space(b, i+1)
		case b[i] == ']' && jsonscan.Space(b, i+1) == len(b):
			return nil
		default:
			return notJSON(b, i)
		}
	}
}

func notJSON(b []byte, end int) error {
	if end == len(b) {
		return malformed("the payload is not JSON: it ends inside a value")
	}
	return malformed("the payload is not JSON: byte %d is invalid", end)
}

// lines decodes an event per line. Empty lines are ignored.
func (d *decoder) lines(b []byte) error {
	for line := range bytes.Lines(b) {
		i := jsonscan.Space(line, 0)
		if i == len(line) {
			continue
		}
		end, ok := jsonscan.ValueEnd(line, i)
		if rest := jsonscan.Space(line, end); !ok || rest != len(line) {
			if err := d.add(nil, fmt.Errorf("is not JSON on one line: byte %d of the line is invalid", max(end, rest))); err != nil {
				return err
			}
			continue
		}
		if err := d.event(line[i:end]); err != nil {
			return err
		}
	}
	return nil
}

// event decodes raw, a valid JSON value.
func (d *decoder) event(raw []byte) error {
	o := &object{d: d, index: d.count}
	err := o.decode(raw)
	if errors.Is(err, httpbody.ErrBehind) {
		return err
	}
	return d.add(&o.e, err)
}

// add adds an event, which is rejected if err is set.
func (d *decoder) add(e *event.Event, err error) error {
	switch {
	case d.count == maxEvents:
		return &httpbody.Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the payload has more than %d events; send fewer at a time", maxEvents)}
	case !d.payload.Grow(eventBytes):
		return httpbody.ErrBehind
	case err != nil:
		d.rejected = append(d.rejected, Rejected{d.count, err.Error()})
	default:
		d.events, d.indexes = append(d.events, e), append(d.indexes, d.count)
	}
	d.count++
	return nil
}

func (o *object) decode(raw value) error {
	if raw[0] != '{' {
		return raw.isNot("an event object")
	}
	err := each(raw, func(key []byte, v value) error {
		set, ok := members[string(key)]
		if !ok {
			o.d.unknownMember(string(key), o.index)
			return nil
		}
		if err := set(o, v); err != nil {
			return fmt.Errorf("%s %w", key, err)
		}
		return nil
	})
	if err == nil {
		err = o.check()
	}
	if err == nil {
		err = o.complete()
	}
	return err
}

// unknownMember warns of an unknown member, once per name.
func (d *decoder) unknownMember(name string, index int) {
	if d.unknown[name] || len(d.unknown) == maxWarnings {
		return
	}
	if d.unknown == nil {
		d.unknown = make(map[string]bool)
	}
	d.unknown[name] = true
	hint := ""
	if len(name) <= 64 {
		if near := nearest.Name(name, memberNames); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
	}
	d.warn("event %d: ignored unknown member %q%s", index, clip(name), hint)
}

// check checks the members that the kind of the event requires, as event.Decode does.
func (o *object) check() error {
	e := &o.e
	required := func(name, value, what string) error {
		if value != "" {
			return nil
		}
		return fmt.Errorf("%s is missing; a %s requires %s", name, e.Kind, what)
	}
	switch e.Kind {
	case event.Request:
		return required("exchange", e.Exchange, "an id of the call, which its response has too, such as a UUIDv7")
	case event.Response:
		if !o.hasStatus && e.Error == "" {
			return errors.New("status is missing; a response requires its HTTP status, or error if there was no answer")
		}
		return required("exchange", e.Exchange, "the id of its request")
	case event.Run:
		return cmp.Or(required("run", e.Labels.Run, "the id of the run"), required("run_status", e.RunStatus, "started, ok, error or cancelled"))
	case event.Tool:
		return cmp.Or(
			required("exchange", e.Exchange, "the id of the call whose response asked for the tool"),
			required("tool_call_id", e.ToolCallID, "the id of the model's tool call"),
			required("tool_status", e.ToolStatus, "started, ok, error or cancelled"),
		)
	case event.Hook:
		return required("instance", e.Instance, "the id of the process")
	case event.KindUnknown:
	}
	return errors.New("kind is missing: one of request, response, run, tool, hook")
}

// complete sets what the receiver determines, and masks the texts of errors.
func (o *object) complete() error {
	e := &o.e
	e.Origin = event.OriginHTTP
	if e.Time.IsZero() {
		e.Time = o.d.now
	}
	if e.Instance == "" {
		e.Client = o.d.client // keeps its calls without a conversation in order
	}
	if e.Error != "" {
		e.Error = string(redact.Append(nil, []byte(e.Error)))
	}
	for k, v := range e.Attrs {
		e.Attrs[k] = string(redact.Append(nil, []byte(v)))
	}
	if e.Kind != event.Request && e.Kind != event.Response {
		e.Body = nil
		return nil
	}
	switch encoding := strings.ToLower(strings.TrimSpace(e.ContentEncoding)); encoding {
	case "", "identity":
		e.ContentEncoding = ""
	case "gzip", "x-gzip":
		e.ContentEncoding = "gzip"
	case "zstd":
		e.ContentEncoding = encoding
	default:
		return fmt.Errorf("content_encoding %q is not one of identity, gzip, zstd; send the decoded body", clip(encoding))
	}
	switch {
	case e.Capture == "" && o.hasBody:
		e.Capture = event.CaptureFull
	case e.Capture == "":
		e.Capture = event.CaptureNone
	}
	if e.ContentType == "" && o.json {
		e.ContentType = "application/json"
	}
	if e.Kind == event.Response && e.Status >= 400 && len(e.Body) > 0 {
		return o.mask()
	}
	return nil
}

// mask masks credentials and personal data in the body of an error response, as hooks do. A body that cannot be decoded is
// withheld.
func (o *object) mask() error {
	e := &o.e
	text := e.Body
	if e.ContentEncoding != "" {
		var err error
		if text, err = o.d.payload.Inflate(e.ContentEncoding, text); errors.Is(err, httpbody.ErrBehind) {
			return err
		} else if err != nil {
			o.d.warn("event %d: withheld the body of an error response: it is not %s", o.index, e.ContentEncoding)
			e.Body, e.Capture, e.ContentEncoding = nil, event.CaptureNone, ""
			return nil
		}
		e.ContentEncoding = ""
	}
	truncated := e.Capture != event.CaptureFull && e.Capture != event.CaptureCut
	if truncated {
		text = redact.Truncate(text, maxError)
	}
	if !o.d.payload.Grow(int64(len(text) + len(text)/8)) {
		return httpbody.ErrBehind
	}
	e.Body = redact.Append(make([]byte, 0, len(text)+len(text)/8), text)
	if truncated {
		e.Body = e.Body[:min(len(e.Body), maxError)]
	}
	return nil
}

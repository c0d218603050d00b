package httpevents

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// A value is a valid JSON value other than null.
type value []byte

// name returns the JSON type of v with its article.
func (v value) name() string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

func (v value) isNot(what string) error { return fmt.Errorf("is %s, not %s", v.name(), what) }

// text returns the text of a string.
func (v value) text() (string, error) {
	if v[0] != '"' {
		return "", v.isNot("a string")
	}
	raw := v[1 : len(v)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	return string(jsonscan.AppendText(nil, raw)), nil
}

// A setter sets the member of an event that it is named after.
type setter func(o *object, v value) error

func text(field func(*event.Event) *string) setter {
	return func(o *object, v value) (err error) {
		*field(&o.e), err = v.text()
		return err
	}
}

func number(limit uint64, set func(*object, uint64)) setter {
	return func(o *object, v value) error {
		if c := v[0]; c != '-' && (c < '0' || c > '9') {
			return v.isNot("a number")
		}
		n, err := strconv.ParseUint(string(v), 10, 64)
		if err != nil || n > limit {
			return fmt.Errorf("is not a whole number up to %d", limit)
		}
		set(o, n)
		return nil
	}
}

func millis(field func(*event.Event) *time.Duration) setter {
	return func(o *object, v value) error {
		if c := v[0]; c != '-' && (c < '0' || c > '9') {
			return v.isNot("a number")
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f < 0 || f > float64(event.MaxDuration/time.Millisecond) {
			return fmt.Errorf("is not a duration in milliseconds up to %d", event.MaxDuration/time.Millisecond)
		}
		*field(&o.e) = time.Duration(math.Round(f * float64(time.Millisecond)))
		return nil
	}
}

// members are the members of an event object.
var members = map[string]setter{
	"kind":                kind,
	"exchange":            text(func(e *event.Event) *string { return &e.Exchange }),
	"time":                timestamp,
	"url":                 text(func(e *event.Event) *string { return &e.URL }),
	"method":              text(func(e *event.Event) *string { return &e.Method }),
	"api_version":         text(func(e *event.Event) *string { return &e.APIVersion }),
	"account":             text(func(e *event.Event) *string { return &e.Account }),
	"status":              number(999, func(o *object, n uint64) { o.e.Status, o.hasStatus = int(n), true }),
	"error":               text(func(e *event.Event) *string { return &e.Error }),
	"duration_ms":         millis(func(e *event.Event) *time.Duration { return &e.Duration }),
	"first_byte_ms":       millis(func(e *event.Event) *time.Duration { return &e.FirstByte }),
	"provider_request_id": text(func(e *event.Event) *string { return &e.ProviderRequestID }),
	"rate_limits":         text(func(e *event.Event) *string { return &e.RateLimits }),
	"retry":               number(math.MaxUint16, func(o *object, n uint64) { o.e.Retry = int(n) }),
	"code":                text(func(e *event.Event) *string { return &e.Code }),
	"service":             text(func(e *event.Event) *string { return &e.Labels.Service }),
	"service_version":     text(func(e *event.Event) *string { return &e.Labels.ServiceVersion }),
	"environment":         text(func(e *event.Event) *string { return &e.Labels.Environment }),
	"agent":               text(func(e *event.Event) *string { return &e.Labels.Agent }),
	"stage":               text(func(e *event.Event) *string { return &e.Labels.Stage }),
	"conversation":        text(func(e *event.Event) *string { return &e.Labels.Conversation }),
	"run":                 text(func(e *event.Event) *string { return &e.Labels.Run }),
	"user":                text(func(e *event.Event) *string { return &e.Labels.User }),
	"instance":            text(func(e *event.Event) *string { return &e.Instance }),
	"seq":                 number(math.MaxInt64, func(o *object, n uint64) { o.e.Seq = n }),
	"dropped":             number(math.MaxInt64, func(o *object, n uint64) { o.e.Dropped = n }),
	"uncaptured":          number(math.MaxInt64, func(o *object, n uint64) { o.e.Uncaptured = n }),
	"hook_status":         text(func(e *event.Event) *string { return &e.HookStatus }),
	"uncaptured_by":       text(func(e *event.Event) *string { return &e.UncapturedBy }),
	"attrs":               attrs,
	"capture":             text(func(e *event.Event) *string { return &e.Capture }),
	"degraded":            degraded,
	"content_type":        text(func(e *event.Event) *string { return &e.ContentType }),
	"content_encoding":    text(func(e *event.Event) *string { return &e.ContentEncoding }),
	"body_bytes":          number(math.MaxInt32, func(o *object, n uint64) { o.e.BodyBytes = int(n) }),
	"run_status":          text(func(e *event.Event) *string { return &e.RunStatus }),
	"tool_call_id":        text(func(e *event.Event) *string { return &e.ToolCallID }),
	"tool_status":         text(func(e *event.Event) *string { return &e.ToolStatus }),
	"sdk":                 text(func(e *event.Event) *string { return &e.SDK }),
	"traceparent":         text(func(e *event.Event) *string { return &e.Traceparent }),
	"body":                body,
	"body_base64":         bodyBase64,
}

// memberNames are the names of members, sorted.
var memberNames = slices.Sorted(maps.Keys(members))

func kind(o *object, v value) error {
	name, err := v.text()
	if err != nil {
		return err
	}
	if o.e.Kind = event.ParseKind(name); o.e.Kind == event.KindUnknown {
		return fmt.Errorf("is %q, not one of request, response, run, tool, hook", clip(name))
	}
	return nil
}

func timestamp(o *object, v value) error {
	s, err := v.text()
	if err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("is %q, not RFC 3339 such as 2026-11-23T10:00:00.123Z", clip(s))
	}
	if t = t.UTC(); t.Year() < 1970 || t.Year() > 2261 {
		return errors.New("is not between 1970 and 2261")
	}
	o.e.Time = t
	return nil
}

func degraded(o *object, v value) error {
	if v[0] != 't' && v[0] != 'f' {
		return v.isNot("a boolean")
	}
	o.e.Degraded = v[0] == 't'
	return nil
}

// attrs sets the attributes. Numbers and booleans become texts.
func attrs(o *object, v value) error {
	if v[0] != '{' {
		return v.isNot("an object of strings")
	}
	o.e.Attrs = make(map[string]string)
	return each(v, func(key []byte, v value) error {
		switch {
		case !event.ValidAttrKey(string(key)):
			o.d.warn("event %d: attrs: ignored key %q: it does not match [a-z0-9._-]{1,%d}", o.index, clip(string(key)), event.MaxAttrKey)
			return nil
		case v[0] == '{' || v[0] == '[':
			return fmt.Errorf("%s: %w", key, v.isNot("a string"))
		case v[0] != '"':
			o.e.Attrs[string(key)] = string(v)
			return nil
		}
		s, err := v.text()
		o.e.Attrs[string(key)] = s
		return err
	})
}

// body sets the body to the text of a string, in the memory of the payload, or to the bytes of an object or array.
func body(o *object, v value) error {
	switch v[0] {
	case '{', '[':
		o.json = true
		return o.setBody(v)
	case '"':
		raw := v[1 : len(v)-1]
		return o.setBody(jsonscan.AppendText(raw[:0], raw)) // the text of an escape is shorter than the escape
	}
	return v.isNot("an object, an array or a string; use body_base64 for other bytes")
}

// bodyBase64 decodes the body in the memory of the payload.
func bodyBase64(o *object, v value) error {
	if v[0] != '"' {
		return v.isNot("a string")
	}
	raw := v[1 : len(v)-1]
	if bytes.IndexByte(raw, '\\') >= 0 { // \/ is a valid escape
		raw = jsonscan.AppendText(raw[:0], raw)
	}
	n, err := base64.StdEncoding.Decode(raw, raw) // writes 3 bytes for 4 that it has read
	if err != nil {
		return errors.New("is not base64 (RFC 4648, with padding)")
	}
	return o.setBody(raw[:n])
}

func (o *object) setBody(b []byte) error {
	if o.hasBody {
		return errors.New("is a second body; use either body or body_base64")
	}
	o.e.Body, o.hasBody = b, true
	return nil
}

// each calls fn for each member of v, a valid JSON object, except those that are null.
func each(v value, fn func(key []byte, v value) error) error {
	for key, member := range jsonscan.Members(v) {
		if member[0] == 'n' {
			continue
		}
		if err := fn(key, member); err != nil {
			return err
		}
	}
	return nil
}

// clip shortens a text for a message.
func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return s[:64] + "…"
}

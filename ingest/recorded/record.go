package recorded

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// A Line is a line of a JSON lines file. Only Request is required; unknown fields are ignored.
type Line struct {
	URL    Text `json:"url"`
	Method Text `json:"method"` // default: POST

	// Request and Response are bodies. Each is a JSON value, or a string that contains the text or the base64 of the
	// body.
	Request          json.RawMessage `json:"request"`
	RequestEncoding  Text            `json:"request_encoding"` // "" or base64
	Response         json.RawMessage `json:"response"`
	ResponseEncoding Text            `json:"response_encoding"`

	Status     Text `json:"status"`      // "" or 0: no response
	Error      Text `json:"error"`       // why there is no response
	DurationMS Text `json:"duration_ms"` // from the request to the end of the response

	// Time of the request; the first field that is set is used. Formats: RFC 3339, HTTP date, "2006-01-02 15:04:05"
	// (UTC), Unix seconds or milliseconds.
	Time       Text `json:"time"`
	StartedAt  Text `json:"started_at"`
	RecordedAt Text `json:"recorded_at"`

	ResponseHeaders json.RawMessage `json:"response_headers"` // object whose values are strings or lists of strings
	RespHeaders     json.RawMessage `json:"resp_headers"`     // the same

	Service        Text `json:"service"`
	ServiceVersion Text `json:"service_version"`
	Environment    Text `json:"environment"`
	Agent          Text `json:"agent"`
	Stage          Text `json:"stage"`
	Conversation   Text `json:"conversation"`
	ConversationID Text `json:"conversation_id"` // the same
	RunID          Text `json:"run_id"`

	Attributes json.RawMessage `json:"attributes"` // object, such as {"tenant": "acme"}
}

// Text is a JSON string or the text of another JSON value, such as a numeric id; null and false become "".
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	if *t = Text(b); absent(b) || *t == "false" {
		*t = ""
	}
	return nil
}

// record is a parsed record of a JSON lines or HAR file.
type record struct {
	url, method       string
	request, response []byte
	requestType       string
	responseType      string
	status            int
	err               string
	started           time.Time // zero: unknown
	duration          time.Duration
	firstByte         time.Duration
	requestID         string
	labels            event.Labels
	attrs             map[string]string
	customID          string // of a batch
	answer            bool   // only the response, of the batch's request with the same custom id
}

func parseLine(raw []byte) (*record, Reason, error) {
	var l Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, NotJSON, fmt.Errorf("not a JSON object: %w", NotJSONError(raw, err))
	}
	if absent(l.Request) {
		return nil, NotExchange, errors.New("not an exchange: no request")
	}
	status, err := strconv.ParseUint(string(cmp.Or(l.Status, "0")), 10, 16)
	if err != nil || status > 999 {
		return nil, NotExchange, fmt.Errorf("not an exchange: status %.40q is not an HTTP status", l.Status)
	}
	request, err := body(l.Request, l.RequestEncoding)
	if err != nil {
		return nil, BadBody, fmt.Errorf("request: %w", err)
	}
	response, err := body(l.Response, l.ResponseEncoding)
	if err != nil {
		return nil, BadBody, fmt.Errorf("response: %w", err)
	}
	h := headers(l.ResponseHeaders, l.RespHeaders)
	ms, _ := strconv.ParseFloat(string(l.DurationMS), 64) // 0 if DurationMS is not a number
	return &record{
		url: string(l.URL), method: string(l.Method), request: request, response: response, requestType: contentType(request),
		responseType: cmp.Or(h.Get("Content-Type"), contentType(response)), status: int(status), err: string(l.Error),
		started:  cmp.Or(parseTime(l.Time), parseTime(l.StartedAt), parseTime(l.RecordedAt), parseTime(Text(h.Get("Date")))),
		duration: millis(ms), requestID: requestID(h),
		labels: event.Labels{
			Service: string(l.Service), ServiceVersion: string(l.ServiceVersion), Environment: string(l.Environment),
			Agent: string(l.Agent), Stage: string(l.Stage), Conversation: string(cmp.Or(l.Conversation, l.ConversationID)), Run: string(l.RunID),
		},
		attrs: attributes(l.Attributes),
	}, "", nil
}

// attributes returns the attributes of a record whose values are strings, numbers or booleans.
func attributes(raw json.RawMessage) map[string]string {
	var values map[string]Text
	if absent(raw) || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	attrs := make(map[string]string, len(values))
	for k, v := range values {
		attrs[k] = string(v)
	}
	return attrs
}

func absent(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }

// body returns the bytes of the body v of a record.
func body(v json.RawMessage, encoding Text) ([]byte, error) {
	if absent(v) {
		return nil, nil
	}
	if v[0] != '"' {
		return v, nil
	}
	var text string
	if err := json.Unmarshal(v, &text); err != nil {
		return nil, fmt.Errorf("read text: %w", err)
	}
	return decode(text, string(encoding))
}

func decode(text, encoding string) ([]byte, error) {
	switch strings.ToLower(encoding) {
	case "", "identity", "text", "utf-8", "utf8":
		return []byte(text), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("decode base64: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("encoding %.40q is not supported; use base64 or none", encoding)
}

// contentType guesses the content type of a body from its first bytes.
func contentType(b []byte) string {
	b = bytes.TrimLeft(b, " \t\r\n")
	switch {
	case len(b) == 0:
		return ""
	case b[0] == '{' || b[0] == '[':
		return "application/json"
	case sse.IsStream(b):
		return "text/event-stream"
	case b[0] == '<':
		return "text/html"
	}
	return ""
}

func headers(sets ...json.RawMessage) http.Header {
	h := http.Header{}
	for _, set := range sets {
		var all map[string]json.RawMessage
		_ = json.Unmarshal(set, &all)                     // other formats are ignored
		for _, k := range slices.Sorted(maps.Keys(all)) { // deterministic if there are both Date and date
			v := all[k]
			var one string
			var many []string
			if json.Unmarshal(v, &one) == nil {
				h.Add(k, one)
			} else if json.Unmarshal(v, &many) == nil && len(many) > 0 {
				h.Add(k, many[0])
			}
		}
	}
	return h
}

func requestID(h http.Header) string {
	return cmp.Or(h.Get("X-Request-Id"), h.Get("Request-Id"), h.Get("X-Amzn-Requestid"))
}

func millis(ms float64) time.Duration {
	if !(ms > 0) { // negative in a HAR means unknown
		return 0
	}
	return time.Duration(min(ms, float64(event.MaxDuration/time.Millisecond)) * float64(time.Millisecond))
}

// exchange returns the two events of record n.
func (rec *record) exchange(cfg *Config, n int) *Exchange {
	started := rec.started
	if started.IsZero() {
		started = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
		if !cfg.Day.IsZero() {
			started = time.Date(cfg.Day.Year(), cfg.Day.Month(), cfg.Day.Day(), 0, 0, 0, 0, time.UTC)
		}
		started = started.Add(time.Duration(n) * time.Microsecond)
	}
	l := rec.labels
	l.Service = cmp.Or(l.Service, cfg.Service)
	base := event.Event{
		Labels: l, Attrs: rec.attrs, Instance: cfg.Instance, Origin: event.OriginImport, Capture: event.CaptureFull, Part: 1, Parts: 1,
	}
	q, s := base, base
	q.Kind, q.Time, q.URL, q.Method = event.Request, started, cleanURL(rec.url), cmp.Or(rec.method, http.MethodPost)
	q.ContentType, q.Body = rec.requestType, rec.request
	s.Kind, s.Time, s.Status, s.Error = event.Response, started.Add(rec.duration), rec.status, rec.err
	s.Duration, s.FirstByte, s.ProviderRequestID = rec.duration, rec.firstByte, rec.requestID
	s.ContentType, s.Body = rec.responseType, rec.response
	if s.Status == 0 && s.Error == "" {
		s.Error = "no response was recorded"
	}
	q.BodyBytes, s.BodyBytes = len(q.Body), len(s.Body)
	x := &Exchange{Request: &q, Response: &s, HasTime: !rec.started.IsZero(), CustomID: rec.customID}
	if rec.answer {
		x.Request = nil
	}
	return x
}

// cleanURL removes the parts of a URL that may contain keys: query, fragment, user and password.
func cleanURL(u string) string {
	if n := strings.IndexAny(u, "?#"); n >= 0 {
		u = u[:n]
	}
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		return u
	}
	host, path := rest, ""
	if n := strings.IndexByte(rest, '/'); n >= 0 {
		host, path = rest[:n], rest[n:]
	}
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + path
}

// Valid event times are in [earliest, latest). latest leaves room for the maximum duration.
var (
	earliest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
)

// parseTime parses a time in one of the formats of Line. It returns the zero time if s is invalid.
func parseTime(s Text) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", http.TimeFormat} { // all accept fractional seconds
		if t, err := time.Parse(layout, string(s)); err == nil {
			return plausible(t)
		}
	}
	whole, fraction, _ := strings.Cut(string(s), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}
	}
	nanos, err := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	if err != nil {
		return time.Time{}
	}
	if seconds > 1e11 {
		return plausible(time.UnixMilli(seconds))
	}
	return plausible(time.Unix(seconds, int64(nanos)))
}

func plausible(t time.Time) time.Time {
	if t = t.UTC(); t.Before(earliest) || !t.Before(latest) {
		return time.Time{}
	}
	return t
}

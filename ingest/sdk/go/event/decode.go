package event

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decode decodes a message. Missing or invalid required headers are errors that wrap ErrMalformed; unknown headers are
// ignored. The body is neither read nor copied. The service must be that of the subject, because NATS permits a client to
// publish on subjects of its service only. Frames have DecodeFrame.
func Decode(subject string, h Header, body []byte) (*Event, error) {
	kind, service, _, err := ParseSubject(subject)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := decoder{Event: Event{Kind: kind}}
	for k, v := range h {
		if len(v) > 0 {
			d.set(k, v[0])
		}
	}
	e := new(Event)
	if err := d.decode(e, service, body); err != nil {
		return nil, err
	}
	return e, nil
}

// A decoder decodes headers into an event. In a frame it continues with the headers in which the next event of its kind differs.
type decoder struct {
	Event
	sent            string // service as sent
	status          bool   // has a status
	part, bodyBytes string
	attrs           map[string]string // all valid ones; shared with decoded events
	shared          bool              // attrs is
	bad             map[string]string // why headers are invalid
}

// set decodes one header; an empty value removes it.
func (d *decoder) set(k, v string) {
	if d.bad != nil {
		delete(d.bad, k)
	}
	switch k {
	case HeaderExchange:
		d.Exchange = unescape(v)
	case HeaderTime:
		d.Time = d.time(k, v)
	case HeaderService:
		d.sent, d.Labels.Service = v, unescape(v)
	case HeaderServiceVersion:
		d.Labels.ServiceVersion = unescape(v)
	case HeaderEnvironment:
		d.Labels.Environment = unescape(v)
	case HeaderAgent:
		d.Labels.Agent = unescape(v)
	case HeaderStage:
		d.Labels.Stage = unescape(v)
	case HeaderConversation:
		d.Labels.Conversation = unescape(v)
	case HeaderRun:
		d.Labels.Run = unescape(v)
	case HeaderUser:
		d.Labels.User = unescape(v)
	case HeaderInstance:
		d.Instance = unescape(v)
	case HeaderSeq:
		d.Seq = d.uint(k, v, math.MaxInt64)
	case HeaderDropped:
		d.Dropped = d.uint(k, v, math.MaxInt64)
	case HeaderUncaptured:
		d.Uncaptured = d.uint(k, v, math.MaxInt64)
	case HeaderUncapturedBy:
		d.UncapturedBy = unescape(v)
	case HeaderCapture:
		d.Capture = unescape(v)
	case HeaderOrigin:
		d.Origin = unescape(v)
	case HeaderDegraded:
		d.Degraded = v == "1"
	case HeaderContentType:
		d.ContentType = unescape(v)
	case HeaderContentEncoding:
		d.ContentEncoding = unescape(v)
	case HeaderSDK:
		d.SDK = unescape(v)
	case HeaderPart:
		d.part = v
	case HeaderBodyBytes:
		d.bodyBytes = v
	default:
		if key, ok := strings.CutPrefix(k, HeaderAttrPrefix); ok {
			d.attr(key, v)
			return
		}
		d.setOfKind(k, v)
	}
}

// setOfKind decodes a header specific to the kind of the event.
func (d *decoder) setOfKind(k, v string) {
	switch d.Kind {
	case Request:
		switch k {
		case HeaderURL:
			d.URL = withoutSecrets(unescape(v))
		case HeaderMethod:
			d.Method = unescape(v)
		case HeaderAPIVersion:
			d.APIVersion = unescape(v)
		case HeaderAccount:
			d.Account = unescape(v)
		case HeaderRetry:
			d.Retry = int(d.uint(k, v, math.MaxUint16))
		case HeaderCode:
			d.Code = unescape(v)
		case HeaderTraceparent:
			d.Traceparent = unescape(v)
		}
	case Response:
		switch k {
		case HeaderStatus:
			d.Status, d.status = int(d.uint(k, v, 999)), v != ""
		case HeaderError:
			d.Error = unescape(v)
		case HeaderDuration:
			d.Duration = d.millis(k, v)
		case HeaderFirstByte:
			d.FirstByte = d.millis(k, v)
		case HeaderProviderReq:
			d.ProviderRequestID = unescape(v)
		case HeaderRateLimits:
			d.RateLimits = unescape(v)
		}
	case Run:
		if k == HeaderRunStatus {
			d.RunStatus = unescape(v)
		}
	case Tool:
		switch k {
		case HeaderToolCallID:
			d.ToolCallID = unescape(v)
		case HeaderToolStatus:
			d.ToolStatus = unescape(v)
		}
	case Hook:
		if k == HeaderHookStatus {
			d.HookStatus = unescape(v)
		}
	case KindUnknown: // unreachable: the subject would be invalid
	}
}

func (d *decoder) attr(key, v string) {
	if !ValidAttrKey(key) {
		return
	}
	if d.shared || d.attrs == nil {
		m := make(map[string]string, len(d.attrs)+1)
		maps.Copy(m, d.attrs)
		d.attrs, d.shared = m, false
	}
	if v == "" {
		delete(d.attrs, key)
		return
	}
	d.attrs[key] = unescape(v)
}

// decode sets e to the event with the headers set so far. Service is that of the subject.
func (d *decoder) decode(e *Event, service string, body []byte) error {
	*e = d.Event
	e.Labels.Service, e.Body = cmp.Or(e.Labels.Service, UnknownService), body
	switch d.shared = true; {
	case len(d.attrs) > MaxAttrs:
		e.Attrs = make(map[string]string, MaxAttrs)
		for _, k := range slices.Sorted(maps.Keys(d.attrs))[:MaxAttrs] {
			e.Attrs[k] = d.attrs[k]
		}
	case len(d.attrs) > 0:
		e.Attrs = d.attrs
	}
	err := d.missing()
	if err == "" {
		err = d.parts(e)
	}
	if len(d.bad) > 0 {
		err = d.bad[slices.Min(slices.Collect(maps.Keys(d.bad)))]
	}
	if err == "" && len(d.sent) <= MaxHeaderValue-12 && service != ServiceToken(e.Labels.Service) { // unless truncated: a character has at most 12 bytes
		err = "header " + HeaderService + " is not the service of the subject"
	}
	if err != "" {
		return fmt.Errorf("%w: %s", ErrMalformed, err)
	}
	return nil
}

// missing returns which required header is missing, or "".
func (d *decoder) missing() string {
	var k string
	switch {
	case d.Time.IsZero():
		k = HeaderTime
	case (d.Kind == Request || d.Kind == Response) && d.Exchange == "":
		k = HeaderExchange
	case d.Kind == Response && !d.status:
		k = HeaderStatus
	case d.Kind == Run && d.Labels.Run == "":
		k = HeaderRun
	case d.Kind == Run && d.RunStatus == "":
		k = HeaderRunStatus
	case d.Kind == Tool && d.ToolCallID == "":
		k = HeaderToolCallID
	case d.Kind == Tool && d.ToolStatus == "":
		k = HeaderToolStatus
	case d.Kind == Hook && d.Instance == "":
		k = HeaderInstance
	default:
		return ""
	}
	return "header " + k + " is missing"
}

// parts decodes the part number, i/n. An unsplit body is part 1 of 1; its length is that of the payload, unless the
// hook omitted a part of it. It returns why a header is invalid, or "".
func (d *decoder) parts(e *Event) string {
	e.Part, e.Parts, e.BodyBytes = 1, 1, len(e.Body)
	split := d.part != "" && d.part != "1/1"
	var size uint64
	if split || e.stubbed() {
		var err error
		if size, err = strconv.ParseUint(cmp.Or(d.bodyBytes, "0"), 10, 31); err != nil {
			return "header " + HeaderBodyBytes + " is not a number up to 2147483647"
		}
		e.BodyBytes = max(e.BodyBytes, int(size))
	}
	if !split {
		return ""
	}
	i, n, _ := strings.Cut(d.part, "/")
	part, err1 := strconv.ParseUint(i, 10, 16)
	parts, err2 := strconv.ParseUint(n, 10, 16)
	if err1 != nil || err2 != nil || part < 1 || parts < part || parts > MaxParts || parts == 1 {
		return "header " + HeaderPart + " is not i/n"
	}
	e.Part, e.Parts, e.BodyBytes = int(part), int(parts), int(size)
	return ""
}

func (d *decoder) fail(k, why string) {
	if d.bad == nil {
		d.bad = make(map[string]string)
	}
	d.bad[k] = "header " + k + " " + why
}

// uint decodes a number up to limit; an empty value is 0.
func (d *decoder) uint(k, v string, limit uint64) uint64 {
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > limit {
		d.fail(k, "is not a number up to "+strconv.FormatUint(limit, 10))
		return 0
	}
	return n
}

// millis decodes a duration; an empty value is 0.
func (d *decoder) millis(k, v string) time.Duration {
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= float64(MaxDuration/time.Millisecond)) { // also rejects NaN
		d.fail(k, "is not a duration in milliseconds")
		return 0
	}
	return time.Duration(math.Round(f * float64(time.Millisecond)))
}

// time decodes a time in the range of Unix nanoseconds; an empty value is the zero time.
func (d *decoder) time(k, v string) time.Time {
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		d.fail(k, "is not RFC 3339")
		return time.Time{}
	}
	if t = t.UTC(); t.Year() < 1970 || t.Year() > 2261 {
		d.fail(k, "is not between 1970 and 2261")
	}
	return t
}

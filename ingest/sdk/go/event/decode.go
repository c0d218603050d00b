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
// publish on subjects of its service only.
func Decode(subject string, h Header, body []byte) (*Event, error) {
	kind, service, _, err := ParseSubject(subject)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := decoder{h: h}
	e := &Event{
		Kind: kind, Exchange: d.text(HeaderExchange), Time: d.time(HeaderTime),
		Labels: Labels{
			Service: cmp.Or(d.text(HeaderService), UnknownService), ServiceVersion: d.text(HeaderServiceVersion), Environment: d.text(HeaderEnvironment),
			Agent: d.text(HeaderAgent), Stage: d.text(HeaderStage), Conversation: d.text(HeaderConversation),
			Run: d.text(HeaderRun), User: d.text(HeaderUser),
		},
		Instance: d.text(HeaderInstance), Seq: d.uint(HeaderSeq, math.MaxInt64), Dropped: d.uint(HeaderDropped, math.MaxInt64),
		Uncaptured: d.uint(HeaderUncaptured, math.MaxInt64), UncapturedBy: d.text(HeaderUncapturedBy),
		Capture: d.text(HeaderCapture), Origin: d.text(HeaderOrigin), Degraded: h.get(HeaderDegraded) == "1",
		ContentType: d.text(HeaderContentType), ContentEncoding: d.text(HeaderContentEncoding),
		SDK: d.text(HeaderSDK), Attrs: attrs(h), Body: body,
	}
	d.kind(e)
	d.part(e)
	if sent := h.get(HeaderService); len(sent) <= MaxHeaderValue-12 && service != ServiceToken(e.Labels.Service) { // unless truncated: a character has at most 12 bytes
		d.fail(HeaderService, "is not the service of the subject")
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, d.err)
	}
	return e, nil
}

// attrs returns the first MaxAttrs attributes of h by key.
func attrs(h Header) map[string]string {
	var m map[string]string
	for k, v := range h {
		key, ok := strings.CutPrefix(k, HeaderAttrPrefix)
		if !ok || len(v) == 0 || v[0] == "" || !ValidAttrKey(key) {
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[key] = unescape(v[0])
	}
	if len(m) > MaxAttrs {
		for _, k := range slices.Sorted(maps.Keys(m))[MaxAttrs:] {
			delete(m, k)
		}
	}
	return m
}

// decoder decodes typed header values and retains the first error.
type decoder struct {
	h   Header
	err error
}

// kind decodes the headers specific to e's kind.
func (d *decoder) kind(e *Event) {
	switch e.Kind {
	case Request:
		d.require(HeaderExchange)
		e.URL, e.Method, e.APIVersion = withoutSecrets(d.text(HeaderURL)), d.text(HeaderMethod), d.text(HeaderAPIVersion)
		e.Account = d.text(HeaderAccount)
		e.Retry = int(d.uint(HeaderRetry, math.MaxUint16))
		e.Code = d.text(HeaderCode)
		e.Traceparent = d.text(HeaderTraceparent)
	case Response:
		d.require(HeaderExchange)
		d.require(HeaderStatus)
		e.Status, e.Error = int(d.uint(HeaderStatus, 999)), d.text(HeaderError)
		e.Duration, e.FirstByte = d.millis(HeaderDuration), d.millis(HeaderFirstByte)
		e.ProviderRequestID, e.RateLimits = d.text(HeaderProviderReq), d.text(HeaderRateLimits)
	case Run:
		d.require(HeaderRun)
		d.require(HeaderRunStatus)
		e.RunStatus = d.text(HeaderRunStatus)
	case Tool:
		d.require(HeaderToolCallID)
		d.require(HeaderToolStatus)
		e.ToolCallID, e.ToolStatus = d.text(HeaderToolCallID), d.text(HeaderToolStatus)
	case Hook:
		d.require(HeaderInstance)
		e.HookStatus = d.text(HeaderHookStatus)
	case KindUnknown: // unreachable: the subject would be invalid
	}
}

// part decodes the part number, i/n. An unsplit body is part 1 of 1; its length is that of the payload, unless the
// hook omitted a part of it.
func (d *decoder) part(e *Event) {
	e.Part, e.Parts, e.BodyBytes = 1, 1, len(e.Body)
	v := d.h.get(HeaderPart)
	if v == "" || v == "1/1" {
		if e.stubbed() {
			e.BodyBytes = max(e.BodyBytes, int(d.uint(HeaderBodyBytes, math.MaxInt32)))
		}
		return
	}
	i, n, _ := strings.Cut(v, "/")
	part, err1 := strconv.ParseUint(i, 10, 16)
	parts, err2 := strconv.ParseUint(n, 10, 16)
	if err1 != nil || err2 != nil || part < 1 || parts < part || parts > MaxParts || parts == 1 {
		d.fail(HeaderPart, "is not i/n")
	}
	e.Part, e.Parts, e.BodyBytes = int(part), int(parts), int(d.uint(HeaderBodyBytes, math.MaxInt32))
}

func (d *decoder) fail(k, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("header %s %s", k, why)
	}
}

func (d *decoder) require(k string) {
	if d.h.get(k) == "" {
		d.fail(k, "is missing")
	}
}

func (d *decoder) text(k string) string { return unescape(d.h.get(k)) }

// uint decodes a number up to limit; a missing header is 0.
func (d *decoder) uint(k string, limit uint64) uint64 {
	v := d.h.get(k)
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

// millis decodes a duration; a missing header is 0.
func (d *decoder) millis(k string) time.Duration {
	v := d.h.get(k)
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

// time decodes a time in the range of Unix nanoseconds.
func (d *decoder) time(k string) time.Time {
	v := d.h.get(k)
	if v == "" {
		d.fail(k, "is missing")
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

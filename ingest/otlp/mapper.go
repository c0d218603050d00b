package otlp

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
)

// namespace is the namespace of the UUIDs of exchanges, which are those of the same span in every delivery of it.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/llmtap/llmtap/ingest/otlp"))

// maxErrorText is the maximum length of an error text, as in the hooks.
const maxErrorText = 4 << 10

// maxCallsPerPayload bounds the events of a payload, which may be larger than their spans.
const maxCallsPerPayload = 16_384

// ownScope is the instrumentation of spans that llmtap exports (package sinks/spans). Those that a Collector sends back are not calls.
const ownScope = "github.com/llmtap/llmtap"

// maxKey is the maximum length of names that are remembered between payloads; longer ones are cut off.
const maxKey = 128

// maxShape is the maximum size of a shape; larger ones are replaced by their length and hash.
const maxShape = 64 << 20

// A Mapper maps spans and log records to events. It is safe for concurrent use.
type Mapper struct {
	cfg     Config
	shapers sync.Pool // of *shape.Shaper
	nested  spans
	beside  siblings
}

// NewMapper returns a mapper for a valid configuration.
func NewMapper(cfg Config) *Mapper {
	key := cfg.Key
	if len(key) == 0 {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
	}
	return &Mapper{cfg: cfg, shapers: sync.Pool{New: func() any { return shape.New(key) }}}
}

// A Result is what a payload contains.
type Result struct {
	Events   []*event.Event // two for each call: its request and its response
	Wrappers int            // spans of calls that are left out because another span describes the same call
	Twice    int            // calls that count twice, because the span between their spans came after both
	Others   int            // spans and log records that do not describe an LLM call
	Rejected int            // calls without the ids or times that an event requires
	Why      string         // of the first rejected one
	memory   memory
}

func (r *Result) reject(why string) {
	if r.Rejected++; r.Why == "" {
		r.Why = why
	}
}

// Traces maps the LLM calls in td.
func (m *Mapper) Traces(td ptrace.Traces) (r Result) {
	payload := make([]arrival, 0, td.SpanCount())
	type span struct {
		ptrace.Span
		attrs, resource attrs
		scope           pcommon.InstrumentationScope
		index           int // in payload
		call            *call
	}
	var calls []span
	for _, rs := range td.ResourceSpans().All() {
		resource := attrsOf(rs.Resource().Attributes())
		service := clip(resource.text("service.name"))
		for _, ss := range rs.ScopeSpans().All() {
			if ss.Scope().Name() == ownScope {
				r.Others += ss.Spans().Len()
				continue
			}
			for _, s := range ss.Spans().All() {
				a := attrsOf(s.Attributes())
				k, c := kindOf(a), &call{}
				switch {
				case k != kindCall:
					r.Others++
				case len(calls) == maxCallsPerPayload:
					r.reject(fmt.Sprintf("a payload has more than %d LLM calls", maxCallsPerPayload))
					k = kindOther
				case s.TraceID().IsEmpty() || s.SpanID().IsEmpty():
					r.reject("a span of an LLM call has no trace id or no span id")
					k = kindOther
				case !c.times(s.StartTimestamp(), s.EndTimestamp()):
					r.reject("a span of an LLM call has no valid time")
					k = kindOther
				default:
					calls = append(calls, span{s, a, resource, ss.Scope(), len(payload), c})
				}
				if !s.SpanID().IsEmpty() {
					failed := s.Status().Code() == ptrace.StatusCodeError
					payload = append(payload, arrival{spanKey: spanKey{service, s.TraceID(), s.SpanID()}, Parent: s.ParentSpanID(), Kind: k, Failed: failed})
				}
			}
		}
	}
	r.Twice, r.Wrappers = m.nested.count(payload), len(calls)
	calls = slices.DeleteFunc(calls, func(s span) bool { return payload[s.index].Counted != countedItself })
	results := make([]sibling, len(calls))
	for i, s := range calls {
		s.call.trace, s.call.parent = s.TraceID().String(), s.SpanID().String()
		s.call.describe(s.attrs, s.Name())
		a := &payload[s.index]
		results[i] = sibling{
			Parent: above(a.spanKey, a.Parent),
			Span:   a.Span, Scope: clip(s.scope.Name()), Model: clip(s.call.model), Start: s.StartTimestamp(), End: s.EndTimestamp(),
			Input: s.call.inputTokens, Output: s.call.outputTokens, Failed: a.Failed,
		}
	}
	m.beside.count(results)
	r.memory = memory{payload, results}
	for i, s := range calls {
		if results[i].Repeated {
			continue
		}
		c := s.call
		events, f := eventsOf(s.Span)
		c.outcome(s.attrs, f)
		if m.cfg.Capture != event.CaptureNone {
			c.input, c.output = messagesOf(s.attrs, events)
		}
		if c.firstByte == 0 {
			c.firstByte = c.firstOf(s.Span)
		}
		trace, id := s.TraceID(), s.SpanID()
		r.Events = append(r.Events, m.events(c, append(trace[:], id[:]...), s.attrs, s.resource, s.scope)...)
	}
	r.Wrappers -= len(r.Events) / 2
	return r
}

// Logs maps the log records in ld that describe whole LLM calls: the event gen_ai.client.inference.operation.details. A
// record within a sampled span is left out, because the span describes the same call.
func (m *Mapper) Logs(ld plog.Logs) (r Result) {
	for _, rl := range ld.ResourceLogs().All() {
		resource := attrsOf(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			for _, l := range sl.LogRecords().All() {
				a := attrsOf(l.Attributes())
				if name := cmp.Or(l.EventName(), a.text("event.name")); name != "gen_ai.client.inference.operation.details" {
					r.Others++
					continue
				}
				if l.Flags().IsSampled() && !l.SpanID().IsEmpty() {
					r.Wrappers++
					continue
				}
				c := &call{}
				at := l.Timestamp()
				if at == 0 {
					at = l.ObservedTimestamp()
				}
				if !c.times(at, at) {
					r.reject("the log record of an LLM call has no valid time")
					continue
				}
				trace, id := l.TraceID(), l.SpanID()
				identity := append(trace[:], id[:]...)
				if id.IsEmpty() {
					identity = fmt.Appendf(identity, "%d %s %v", at, resource.text("service.name"), l.Attributes().AsRaw())
				} else {
					c.trace, c.parent = trace.String(), id.String()
				}
				c.describe(a, "")
				c.outcome(a, failure{})
				if m.cfg.Capture != event.CaptureNone {
					c.input, c.output = messagesOf(a, nil)
				}
				r.Events = append(r.Events, m.events(c, identity, a, resource, sl.Scope())...)
			}
		}
	}
	return r
}

// times sets start and duration. It returns false if an event cannot have these times.
func (c *call) times(start, end pcommon.Timestamp) bool {
	if start == 0 {
		start = end
	}
	if start == 0 || start > math.MaxInt64 {
		return false
	}
	c.start = time.Unix(0, int64(start)).UTC() //nolint:gosec // checked
	if end > start {
		c.duration = time.Duration(min(uint64(end-start), uint64(event.MaxDuration))) //nolint:gosec // at most MaxDuration
	}
	return c.start.Add(c.duration).Year() < 2261
}

// eventsOf returns the events of a span and what they and its status say about a failure.
func eventsOf(s ptrace.Span) (events []spanEvent, f failure) {
	f.failed, f.message = s.Status().Code() == ptrace.StatusCodeError, s.Status().Message()
	for _, e := range s.Events().All() {
		a := attrsOf(e.Attributes())
		if e.Name() == "exception" || e.Name() == "gen_ai.client.operation.exception" {
			f.typ, f.text = a.text("exception.type"), a.text("exception.message")
			continue
		}
		events = append(events, spanEvent{e.Name(), a})
	}
	return events, f
}

// firstOf returns the time to the first token of a stream, if the span has an event for it.
func (c *call) firstOf(s ptrace.Span) time.Duration {
	for _, e := range s.Events().All() {
		switch e.Name() {
		case "First Token Stream Event", "llm.content.completion.chunk", "gen_ai.content.completion.chunk", "ai.stream.firstChunk":
			if e.Timestamp() > s.StartTimestamp() {
				return min(time.Duration(min(uint64(e.Timestamp()-s.StartTimestamp()), uint64(event.MaxDuration))), c.duration) //nolint:gosec // bounded
			}
		}
	}
	return 0
}

// events returns the request and the response of a call.
func (m *Mapper) events(c *call, identity []byte, a, resource attrs, scope pcommon.InstrumentationScope) []*event.Event {
	base := event.Event{
		Exchange: uuid.NewSHA1(namespace, identity).String(),
		Labels:   m.labels(a, resource), Instance: resource.text("service.instance.id"),
		Origin: event.OriginOTLP, Degraded: true, Capture: event.CaptureFull, ContentType: "application/json", Part: 1, Parts: 1,
		SDK: sdk(scope),
	}
	if base.Labels.Run == "" {
		base.Labels.Run = c.trace
	}
	if m.cfg.Capture != event.CaptureFull {
		base.Capture = event.CaptureShape // without captured messages, what remains is the shape
	}
	q, s := base, base
	q.Kind, q.Time, q.URL, q.Method = event.Request, c.start, c.url(), "POST"
	q.Body = m.captured(c, c.request(), true)
	if c.trace != "" {
		q.Traceparent = "00-" + c.trace + "-" + c.parent + "-01"
	}
	s.Kind, s.Time, s.Status, s.Duration, s.FirstByte, s.ProviderRequestID = event.Response, c.start.Add(c.duration), c.status, c.duration, c.firstByte, c.requestID
	switch {
	case c.status == 0:
		s.Error = masked(withType(c.errorType, c.errorText), event.MaxHeaderValue)
		s.ContentType = ""
	case c.status >= 400:
		s.Body = encode(object{"error": object{"type": masked(c.errorType, event.MaxHeaderValue), "message": masked(c.errorText, maxErrorText)}})
	default:
		s.Body = m.captured(c, c.response(), false)
	}
	q.BodyBytes, s.BodyBytes = len(q.Body), len(s.Body)
	return []*event.Event{&q, &s}
}

// clip returns a copy of a name that is remembered.
func clip(name string) string { return strings.Clone(name[:min(len(name), maxKey)]) }

// captured returns a body as the capture mode requires.
func (m *Mapper) captured(c *call, body []byte, request bool) []byte {
	if m.cfg.Capture == event.CaptureFull {
		return body
	}
	s, _ := m.shapers.Get().(*shape.Shaper)
	defer m.shapers.Put(s)
	if request {
		return append([]byte(nil), s.Request(c.dialect, body, maxShape)...)
	}
	return append([]byte(nil), s.Response(c.dialect, body, maxShape)...)
}

// masked returns at most limit bytes of an error text, without credentials and personal data.
func masked(text string, limit int) string {
	return string(redact.Append(nil, redact.Truncate([]byte(text), limit)))
}

// withType returns text after the class of the error, unless text contains it.
func withType(class, text string) string {
	if class == "error" || len(text) >= len(class) && (text[:len(class)] == class) {
		return text
	}
	return class + ": " + text
}

// labels returns the labels of a call. Those of the span override those of its resource.
func (m *Mapper) labels(a, resource attrs) event.Labels {
	get := func(names []string) string { return cmp.Or(a.text(names...), resource.text(names...)) }
	l := event.Labels{
		Service: resource.text("service.name"), ServiceVersion: resource.text("service.version"), Environment: resource.text(nameEnvironment...),
		Agent: get(nameAgent), Stage: get(nameStage), Conversation: a.text(nameConversation...), Run: a.text(nameRun...),
	}
	if user := a.text(nameUser...); user != "" {
		if l.User = user; !m.cfg.KeepUser {
			l.User = event.HashUser(m.cfg.Key, user)
		}
	}
	return l
}

// sdk returns the name and the version of an instrumentation.
func sdk(scope pcommon.InstrumentationScope) string {
	name := cmp.Or(scope.Name(), "otlp")
	if scope.Version() != "" {
		name += "/" + scope.Version()
	}
	return name
}

package spans

import (
	"crypto/sha256"
	"encoding/hex"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// scope is the name of the instrumentation of exported spans. A receiver of llmtap ignores spans that have it.
const scope = "github.com/llmtap/llmtap"

// maxText is the maximum length of a text in a span, in bytes.
const maxText = 1 << 10

// exported reports whether the calls of an origin are exported.
func exported(origin string) bool { return origin != event.OriginOTLP && origin != event.OriginImport }

// A batch is spans by service.
type batch struct {
	traces   ptrace.Traces
	services map[service]ptrace.SpanSlice
	spans    int
}

type service struct{ name, version, environment, instance string }

func newBatch() *batch {
	return &batch{traces: ptrace.NewTraces(), services: map[service]ptrace.SpanSlice{}}
}

// add returns a new span of a service.
func (b *batch) add(of service) ptrace.Span {
	spans, ok := b.services[of]
	if !ok {
		r := b.traces.ResourceSpans().AppendEmpty()
		put(r.Resource().Attributes(), "service.name", of.name, "service.version", of.version, "deployment.environment.name", of.environment, "service.instance.id", of.instance)
		s := r.ScopeSpans().AppendEmpty()
		s.Scope().SetName(scope)
		spans = s.Spans()
		b.services[of] = spans
	}
	b.spans++
	return spans.AppendEmpty()
}

// call adds the span of a call and of the findings about it. cost is in dollars, or nil if it is unknown.
func (b *batch) call(e *analyzer.Exchange, findings []analyzer.Finding, cost *float64) {
	l := &e.Labels
	s := b.add(service{l.Service, l.ServiceVersion, l.Environment, e.Instance})
	s.SetTraceID(traceID(e.Trace, l, e.Conversation, e.ID))
	s.SetSpanID(spanID(e.ID))
	if b, err := hex.DecodeString(e.Span); e.Trace != "" && err == nil && len(b) == len(pcommon.SpanID{}) {
		s.SetParentSpanID(pcommon.SpanID(b))
	}
	operation := e.Operation
	if operation == "" {
		operation = "chat"
	}
	s.SetName(operation + " " + e.Model)
	s.SetKind(ptrace.SpanKindClient)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(e.StartedAt))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(e.StartedAt.Add(max(e.Duration, 0))))
	a := s.Attributes()
	put(a, "gen_ai.operation.name", operation, "gen_ai.provider.name", e.Provider, "gen_ai.request.model", e.Model, "gen_ai.response.model", e.ResponseModel,
		"gen_ai.response.id", e.ResponseID, "gen_ai.conversation.id", e.Conversation, "gen_ai.agent.name", l.Agent, "user.id", l.User, "server.address", e.Server,
		"error.type", e.ErrorType, "openinference.span.kind", "LLM",
		"llmtap.exchange", e.ID, "llmtap.run", l.Run, "llmtap.stage", l.Stage, "llmtap.cause", e.Cause, "llmtap.cause.known", e.CauseKnown, "llmtap.root_cause", e.RootCause)
	if e.FinishReason != "" {
		a.PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr(e.FinishReason)
	}
	if e.Status > 0 {
		a.PutInt("http.response.status_code", int64(e.Status))
	}
	if e.InputTokens > 0 || e.OutputTokens > 0 {
		a.PutInt("gen_ai.usage.input_tokens", e.InputTokens)
		if e.OutputTokens != analyzer.UnknownTokens {
			a.PutInt("gen_ai.usage.output_tokens", e.OutputTokens)
		}
		a.PutInt("gen_ai.usage.cache_read.input_tokens", e.CachedTokens)
		a.PutInt("gen_ai.usage.cache_creation.input_tokens", e.CacheWritten)
	}
	if cost != nil {
		a.PutDouble("gen_ai.usage.cost", *cost)
	}
	if e.Stream && e.FirstByte > 0 {
		a.PutDouble("gen_ai.response.time_to_first_chunk", e.FirstByte.Seconds())
	}
	if e.Retry > 0 {
		a.PutInt("http.request.resend_count", int64(e.Retry))
	}
	for k, v := range e.Attrs {
		a.PutStr(k, cut(v))
	}
	if e.Failed {
		s.Status().SetCode(ptrace.StatusCodeError)
		s.Status().SetMessage(cut(e.ErrorText))
	}
	for i := range findings {
		ev := s.Events().AppendEmpty()
		ev.SetName("llmtap.finding")
		ev.SetTimestamp(s.EndTimestamp())
		about(ev.Attributes(), &findings[i])
	}
}

// finding adds a span of a finding about a call that was exported before.
func (b *batch) finding(f *analyzer.Finding) {
	l := &f.Labels
	s := b.add(service{l.Service, l.ServiceVersion, l.Environment, f.ExchangeInstance})
	s.SetTraceID(traceID("", l, f.Conversation, f.Exchange))
	s.SetSpanID(spanID(f.ID))
	s.SetParentSpanID(spanID(f.Exchange))
	s.SetName("llmtap.finding " + f.Rule)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(f.StoredAt))
	s.SetEndTimestamp(s.StartTimestamp())
	put(s.Attributes(), "llmtap.exchange", f.Exchange, "gen_ai.conversation.id", f.Conversation)
	about(s.Attributes(), f)
}

func about(a pcommon.Map, f *analyzer.Finding) {
	put(a, "llmtap.rule", f.Rule, "llmtap.severity", string(f.Severity), "llmtap.summary", f.Summary, "llmtap.root_cause", f.RootCause, "llmtap.confidence", f.Confidence,
		"llmtap.fix", f.Fix, "llmtap.problem", f.Fingerprint, "gen_ai.tool.name", f.ToolName, "gen_ai.tool.call.id", f.ToolCallID)
}

// put sets pairs of names and values, except empty ones.
func put(a pcommon.Map, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			a.PutStr(pairs[i], cut(pairs[i+1]))
		}
	}
}

// cut returns s without what exceeds maxText.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && s[n]&0xC0 == 0x80 { // not within a character
		n--
	}
	return s[:n] + "…"
}

// traceID returns the agent's trace, or one of its run, conversation or call.
func traceID(agents string, l *event.Labels, conversation, exchange string) (id pcommon.TraceID) {
	if b, err := hex.DecodeString(agents); err == nil && len(b) == len(id) {
		return pcommon.TraceID(b)
	}
	key := "exchange\x00" + exchange
	if l.Run != "" {
		key = "run\x00" + l.Run
	} else if conversation != "" {
		key = "conversation\x00" + conversation
	}
	sum := sha256.Sum256([]byte(l.Service + "\x00" + key))
	copy(id[:], sum[:])
	return id
}

func spanID(of string) (id pcommon.SpanID) {
	sum := sha256.Sum256([]byte(of))
	copy(id[:], sum[:])
	return id
}

// dollars returns the cost of a call, or nil if it is unknown.
func dollars(e *analyzer.Exchange, prices *price.Lookup) *float64 {
	p := prices.Of(e.Provider, e.Model)
	if p == nil || e.InputTokens <= 0 && e.OutputTokens <= 0 {
		return nil
	}
	usd := p.Microdollars(price.Tokens{Input: e.InputTokens, Cached: e.CachedTokens, Written: e.CacheWritten, Hour: e.CacheHour, Output: max(0, e.OutputTokens)}) / 1e6
	return &usd
}

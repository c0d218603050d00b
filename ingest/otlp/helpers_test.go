package otlp

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var started = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type m = map[string]any

// A testSpan is a span of trace 1 that takes 1.5 s.
type testSpan struct {
	id, parent byte
	name       string
	attrs      m
	events     []testEvent
	failed     string // description of the status
	service    string // default: checkout
	scope      string // default: test.instrumentation
	shorter    bool   // takes 1.4 s
}

type testEvent struct {
	name  string
	attrs m
}

// payload returns spans as an exporter sends them, each with its own resource.
func payload(t testing.TB, spans ...testSpan) ptrace.Traces {
	t.Helper()
	td := ptrace.NewTraces()
	for _, x := range spans {
		rs := td.ResourceSpans().AppendEmpty()
		if x.service == "" {
			x.service = "checkout"
		}
		fill(t, rs.Resource().Attributes(), m{"service.name": x.service, "service.version": "1.2.3", "deployment.environment": "prod", "service.instance.id": "pod-1"})
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(cmp.Or(x.scope, "test.instrumentation"))
		ss.Scope().SetVersion("0.1")
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(pcommon.SpanID{7: x.id})
		s.SetParentSpanID(pcommon.SpanID{7: x.parent})
		s.SetName(x.name)
		s.SetKind(ptrace.SpanKindClient)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(started))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(started.Add(1500 * time.Millisecond)))
		if x.shorter {
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(started.Add(1400 * time.Millisecond)))
		}
		fill(t, s.Attributes(), x.attrs)
		if x.failed != "" {
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage(x.failed)
		}
		for i, e := range x.events {
			se := s.Events().AppendEmpty()
			se.SetName(e.name)
			se.SetTimestamp(pcommon.NewTimestampFromTime(started.Add(time.Duration(i+1) * 100 * time.Millisecond)))
			fill(t, se.Attributes(), e.attrs)
		}
	}
	return td
}

func fill(t testing.TB, to pcommon.Map, attrs m) {
	t.Helper()
	must.Do(t, to.FromRaw(attrs))
}

// analyze returns what an analyzer makes of events after their way through NATS.
func analyze(t testing.TB, events ...*event.Event) *analyzer.Output {
	t.Helper()
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	out := new(analyzer.Output)
	now := started
	for i, e := range events {
		decoded := must.Get(event.Decode(e.Subject(), e.Encode(), e.Body))(t)
		now = now.Add(time.Millisecond)
		a.Process(decoded, analyzer.Position{Seq: uint64(i + 1), Time: now}, true, out)
	}
	a.Advance(now.Add(time.Hour), true, out)
	for _, d := range out.Dead {
		t.Errorf("dead letter: %s, %s: %s", d.Reason, d.Error, d.Event.Body)
	}
	return out
}

// one returns the row of the only LLM call in a span.
func one(t testing.TB, cfg Config, s testSpan) *analyzer.Exchange {
	t.Helper()
	s.id = 2
	r := NewMapper(cfg).Traces(payload(t, s))
	if len(r.Events) != 2 {
		t.Fatalf("%d events: %+v", len(r.Events), r)
	}
	out := analyze(t, r.Events...)
	if len(out.Exchanges) != 1 || len(out.Findings) > 0 {
		t.Fatalf("%d rows, findings: %+v", len(out.Exchanges), out.Findings)
	}
	return &out.Exchanges[0]
}

// A store is NATS as a receiver sees it.
type store struct {
	events   []*event.Event
	memory   [][]byte
	rejected []jetstream.Rejection
	err      error
}

func (s *store) publish(_ context.Context, events []*event.Event) ([]jetstream.Rejection, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.events = append(s.events, events...)
	return s.rejected, nil
}

func (s *store) remember(_ context.Context, data []byte) error {
	s.memory = append(s.memory, data)
	return s.err
}

func (s *store) recall(_ context.Context, fn func(data []byte)) error {
	for _, data := range s.memory {
		fn(data)
	}
	return s.err
}

func summary(x *analyzer.Exchange) string {
	s := fmt.Sprintf("%s/%s %s%s %s>%s id=%s finish=%s tokens=%d/%d/%d messages=%d calls=%d", x.Dialect, x.Provider, x.Server, x.Path, x.Model, x.ResponseModel,
		x.ResponseID, x.FinishReason, x.InputTokens, x.OutputTokens, x.CachedTokens, x.Messages, x.ToolCalls)
	if x.Stream {
		s += " stream"
	}
	if x.Status != 200 || x.Failed {
		s += fmt.Sprintf(" status=%d failed=%v %s %s", x.Status, x.Failed, x.ErrorType, x.Cause)
	}
	return s
}

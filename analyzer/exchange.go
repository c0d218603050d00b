package analyzer

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// pending is an exchange waiting for its response.
type pending struct {
	row      Exchange
	target   wire.Target
	turn     *session.Turn // nil if the request was not judged
	findings []judge.Finding
	signals  []signals.Signal // emitted with the exchange
	loop     *session.Loop    // of the turn, if its calls repeat others
	request  signals.Request
	withheld *withheld            // nil if its texts are stored, or there are none
	cache    promptcache.Expected // until the answer, row.Cache is as Expect returned it
	stage    *stage               // of the prompt; nil if it is unknown
	failed   *failed              // nil if it is not known to have failed
	limits   string               // what the response said of rate limits, see event.Event.RateLimits; valid until the exchange is reported
	dropped  uint64               // exchanges that the process had dropped before the request
	run      *run                 // nil if none

	runIndex uint32 // number of the request in its run, from 1
	history  int32  // messages of the request; 0 if it is not known to have all
	opening  uint32 // number of the opening in stage
	account  uint16 // hash of event.Event.Account; 0 if unknown
	alone    bool   // no other call of the run was in flight
	batch    bool   // see endpoint.batch
}

// failed is what is known of the failure of an exchange.
type failed struct {
	why     cause.Cause
	failure *signals.Failure // set when the exchange is reported
}

// size returns the approximate memory of p, including its conversation, which may have no other request.
func (p *pending) size() int {
	n := 1536
	if p.withheld != nil {
		n += 64 + len(p.withheld.body)
	}
	if p.turn != nil {
		n += 2048
	}
	for i := range p.findings {
		n += 512 + len(p.findings[i].ToolCallID)
	}
	return n
}

// half processes one half of an exchange. The second half completes the exchange.
func (a *Analyzer) half(h half) {
	s, x, key := &a.step, a.exchanges, keyOf(h.ev)
	if x.isDuplicate(s, h) {
		return
	}
	if h.ev.Kind == event.Response {
		if e := x.takePending(key); e != nil {
			h.minSeq = min(h.minSeq, e.MinSeq)
			a.complete(e.Value, h)
			return
		}
		x.addEarly(key, h, s.now)
		return
	}
	early := x.takeEarly(key)
	if early != nil {
		h.minSeq = min(h.minSeq, early.MinSeq)
	}
	p := a.request(h)
	a.runs.begin(s, p, h)
	a.endings.continues(p)
	if early != nil {
		a.complete(p, half{&early.Value.ev, h.at, h.minSeq})
		return
	}
	x.addPending(key, p, h.minSeq, s.now)
}

// request scans and judges a request and creates its row.
func (a *Analyzer) request(h half) *pending {
	s, ev := &a.step, h.ev
	to := a.endpoints.of(ev.URL)
	p := newPending(h, to, a.strings)
	p.row.Attrs = a.setups.attributes(ev)
	body, whole := a.bodies.read(s, ev, h.at)
	if whole {
		p.row.RequestBytes = len(body)
	} else {
		body = beginning(ev)
	}
	if !whole && body == nil {
		return p
	}
	if p.target.Dialect == wire.Other { // the body may reveal the dialect
		p.setTarget(facts.Detect(ev.URL, "", body), a.strings)
	}
	if p.target.Dialect == wire.Other {
		return p
	}
	e, r := &p.row, &a.bodies.request
	e.Operation = "chat"
	if !whole { // use only the facts that the missing part cannot change
		_ = facts.ScanRequest(p.target.Dialect, body, r) // the scan always ends early
		e.Stream = r.Stream || to.streams
		p.setTarget(p.target.WithModel(a.strings.name(r.Model)), a.strings)
		return p
	}
	err := a.bodies.scanRequest(s, e, p.target.Dialect, body)
	e.Stream, e.Messages = r.Stream || to.streams, len(r.Messages)
	p.setTarget(p.target.WithModel(a.strings.name(r.Model)), a.strings)
	switch {
	case err != nil:
		s.deadLetter(dropUnreadable, ev, h.at, err)
	case ev.Degraded: // an incomplete history proves and explains nothing
		a.contents.request(s, p, r, body, h, a.exchanges.pendingBytes)
	default:
		a.judgeRequest(p, h, body)
	}
	return p
}

// newPending creates the row of a request. The row may wait long for the response, so it shares no memory with the
// event.
func newPending(h half, to *endpoint, in interner) *pending {
	ev := h.ev
	p := &pending{dropped: ev.Dropped, account: promptcache.Account(ev.Account), batch: to.batch}
	p.row = Exchange{
		ID: strings.Clone(ev.Exchange), Seq: h.at.Seq, Labels: in.labels(ev), StartedAt: ev.Time, Server: to.host, Path: to.path,
		RequestBytes: ev.BodyBytes, Retry: ev.Retry, Instance: in.string(ev.Instance), InstanceSeq: ev.Seq, Origin: in.string(ev.Origin),
		Capture: in.string(ev.Capture), Degraded: ev.Degraded, SDK: in.string(limit.Name(ev.SDK)), Code: in.string(limit.Name(ev.Code)),
	}
	p.row.Trace, p.row.Span = traceContext(ev.Traceparent)
	p.row.Conversation = p.row.Labels.Conversation
	p.setTarget(to.target, in)
	return p
}

// traceContext returns the trace and the span of a W3C traceparent; "" if it has none.
//
// https://www.w3.org/TR/trace-context/#traceparent-header (read 2026-11-29)
func traceContext(parent string) (trace, span string) {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || len(parts[2]) != 16 || strings.Trim(parts[1]+parts[2], "0123456789abcdef") != "" || strings.Trim(parts[1], "0") == "" {
		return "", ""
	}
	return strings.Clone(parts[1]), strings.Clone(parts[2])
}

// setTarget sets the target of the request, as far as it is known.
func (p *pending) setTarget(t wire.Target, strings interner) {
	t.Model = strings.string(limit.Name(t.Model))
	p.target = t
	p.row.Dialect, p.row.Variant, p.row.Provider, p.row.Model = string(t.Dialect), string(t.Variant), t.Provider(), t.Model
}

// judgeRequest adds the request in a.bodies to its conversation and determines its violations with their root causes,
// the calls that it answers, its signals and its new contents.
func (a *Analyzer) judgeRequest(p *pending, h half, body []byte) {
	s, e, q := &a.step, &p.row, &a.bodies.request
	process := p.agentProcess()
	r := judge.Request{
		Request: session.Request{
			Order: h.at.order(), MinSeq: h.minSeq, Time: h.at.Time, Seen: h.seenAt(), Service: p.scope(), Conversation: e.Labels.Conversation,
			Exchange: e.ID, Code: e.Code, Instance: process, Run: e.Labels.Run, Sent: e.StartedAt, Fresh: process != "" && e.InstanceSeq == 1,
			Retry: e.Retry > 0, Shaped: e.Capture == event.CaptureShape, Target: p.target, Facts: q, Body: body,
		},
		Sender: e.Labels.Service, Version: e.Labels.ServiceVersion,
	}
	p.turn, p.findings = a.judge.Request(&r)
	e.Conversation, e.Inferred = p.turn.Conversation, p.turn.Inferred
	if !q.Stored {
		p.history = int32(len(q.Messages))
	}
	e.Findings = len(p.findings)
	for i := range p.findings {
		if p.findings[i].Predicted == check.Reject {
			e.Rejects++
		}
	}
	a.calls.replies(s, p, &r.Request, a.judge.Pairing(), h.at)
	a.judge.FindRejecters(&r, p.findings)
	x := p.observed()
	a.detector.Judged(&x, q, body)
	p.signals, p.request = x.Signals, x.Request
	a.setups.read(e, q, p.turn.Lead(), body)
	a.prompts.request(s, p, q, body, h.minSeq)
	a.contents.request(s, p, q, body, h, a.exchanges.pendingBytes)
}

// agentProcess returns the process of the agent that sent the request; "" if unknown.
func (p *pending) agentProcess() string {
	if p.row.Origin == event.OriginHook {
		return p.row.Instance
	}
	return "" // the instance is a proxy or an importer
}

// scope returns the namespace of the conversation of p, see scopeOf.
func (p *pending) scope() string { return scopeOf(p.row.Labels.Service, p.row.Origin, p.row.Instance) }

// scopeOf returns the namespace of the conversations of a service. Each import has its own, so that importing the same
// lines again yields the same rows, and recorded and live conversations never explain each other.
func scopeOf(service, origin, instance string) string {
	if origin == event.OriginImport {
		return service + "@" + instance
	}
	return service
}

// complete completes an exchange with its response. h.minSeq is the oldest sequence of the events of both halves.
func (a *Analyzer) complete(p *pending, h half) {
	s, e, ev := &a.step, &p.row, h.ev
	e.Seq, e.StoredAt = h.at.Seq, h.at.Time
	e.Status, e.Duration, e.FirstByte, e.ProviderRequestID = ev.Status, ev.Duration, ev.FirstByte, ev.ProviderRequestID
	p.limits = ev.RateLimits
	e.ResponseBytes = ev.BodyBytes
	body, whole := a.bodies.read(s, ev, h.at)
	if whole {
		e.ResponseBytes = len(body)
	} else {
		body = beginning(ev)
	}
	r := &a.bodies.response
	scanned := a.bodies.scanResponse(p.target.Dialect, ev.ContentType, body, whole)
	if scanned {
		a.answer(p, h)
		a.contents.answer(s, p, body, h)
		if err := unreadable(ev, r); err != nil {
			s.deadLetter(dropUnreadable, ev, h.at, err)
		}
	}
	inBand := e.Status >= 200 && e.Status < 300 && len(r.Error) > 0 && !r.Malformed
	e.Failed = e.Status >= 400 || inBand || e.Status == 0 && !ev.Cancelled()
	text := []byte(ev.Error)
	switch {
	case inBand:
		text = r.Error
	case e.Status >= 400 && (len(body) > 0 || ev.Cancelled()): // that the agent left says nothing about the error
		text = body
	}
	a.memory.predict(s, p)
	switch {
	case e.Failed:
		p.explain(text)
	case ev.Cancelled():
		e.ErrorType = ErrorCancelled
	case ev.Error != "":
		e.ErrorType, e.ErrorText = ErrorCutShort, limit.Text(cause.Redact(text), maxErrorText)
	}
	if scanned && accepted(e) && e.ErrorType == "" {
		e.Ended = ended(p.target.Dialect, r)
	}
	a.prompts.answered(p)
	x := p.observed()
	x.InBand, x.MayBeLost = inBand, a.processes.mayLack(p)
	a.detector.Answered(&x, ev, r)
	p.signals = x.Signals
	a.replay.used(h.minSeq, s.now)
	key := keyOf(ev)
	if _, expired := a.exchanges.completed.get(key); !expired {
		a.exchanges.complete(s, key, completed(h.minSeq))
	}
	a.report(p, h.minSeq)
}

// answer copies the facts of an answer to the row and adds the answer to its conversation. The calls of an answer that
// the agent did not read to the end require no reply.
func (a *Analyzer) answer(p *pending, h half) {
	s, e, r := &a.step, &p.row, &a.bodies.response
	e.ResponseModel, e.ResponseID, e.FinishReason = limit.Name(r.Model), limit.Name(r.ID), limit.Name(r.FinishReason)
	e.InputTokens, e.OutputTokens, e.CachedTokens = r.InputTokens, r.OutputTokens, r.CachedTokens
	e.CacheWritten, e.CacheHour, e.CacheReported = r.CacheWritten, r.CacheHour, r.CacheReported
	if r.Unfinished() && e.InputTokens+e.OutputTokens > 0 {
		e.OutputTokens = UnknownTokens
	}
	e.ToolCalls = len(r.Calls)
	if p.turn == nil || !judge.Usable(e.Status, r) {
		return
	}
	in := session.Answer{Facts: r, Order: h.at.order(), MinSeq: h.minSeq, At: h.seenAt(), Cut: h.ev.Error != "" && r.FinishReason == ""}
	if len(r.Calls) > 0 {
		in.Context = newCaller(p)
	}
	a.calls.asked(s, p, a.judge.Answer(p.turn, in))
}

// expirePending completes the oldest request without a response. This is a failure unless the response may have been
// sent and lost. A request of an interrupted import has no row, because its file contains the response.
func (a *Analyzer) expirePending() {
	s := &a.step
	it := a.exchanges.takePending(a.exchanges.pending.First().Key)
	a.exchanges.complete(s, it.Key, completed(it.MinSeq)|expired)
	p := it.Value
	if p.row.Origin == event.OriginImport {
		s.drop(dropImport)
		return
	}
	p.row.StoredAt, p.row.Cache = it.Deadline, promptcache.Verdict{}
	if p.row.Degraded || a.processes.mayLack(p) {
		p.row.ErrorType = ErrorLost
	} else {
		p.row.Failed = true
		p.explain(nil)
	}
	a.report(p, it.MinSeq)
}

// expireEarly emits a row for the oldest response whose request did not arrive.
func (a *Analyzer) expireEarly() {
	s := &a.step
	it := a.exchanges.takeEarly(a.exchanges.early.First().Key)
	a.exchanges.complete(s, it.Key, completed(it.MinSeq)|expired)
	ev := &it.Value.ev
	if ev.Origin == event.OriginImport {
		s.drop(dropImport)
		return
	}
	p := &pending{target: wire.Target{Dialect: wire.Other, Variant: wire.OtherVariant}}
	p.row = Exchange{
		ID: ev.Exchange, Labels: a.strings.labels(ev), StartedAt: ev.Time.Add(-ev.Duration), Conversation: ev.Labels.Conversation,
		Dialect: string(wire.Other), Variant: string(wire.OtherVariant), Instance: ev.Instance, InstanceSeq: ev.Seq,
		Origin: ev.Origin, Capture: ev.Capture, Degraded: ev.Degraded, SDK: ev.SDK, Attrs: a.setups.attributes(ev),
	}
	a.complete(p, half{ev, it.Value.at, it.MinSeq})
}

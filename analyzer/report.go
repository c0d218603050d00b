package analyzer

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// report emits the rows of a completed exchange and counts it.
//
//	conversation ─> tool calls, run ─> ledger ─> Findings ─> verdicts of the provider ─> signals ─> withheld contents ─> Exchange
func (a *Analyzer) report(p *pending, minSeq uint64) {
	s, e := &a.step, &p.row
	found := s.found
	var replied [2][]*session.Call
	if p.turn != nil {
		a.judge.Sessions.End(p.turn)
		replied = a.calls.settle(s, p)
	}
	proof := p.proof()
	if proof != nil {
		e.RootCause = proof.Instance.Root.ID
	}
	known, isNew := a.memory.exchange(s, p)
	a.memory.model(s, p, minSeq)
	broken := a.memory.cache(s, p)
	if e.Failed {
		p.failed.failure = failureOf(e, known)
	}
	a.runs.complete(s, p, minSeq)
	a.endings.wait(s, p, minSeq)
	counted := e.Origin != event.OriginImport
	if counted {
		s.tallies.exchange(p, replied, func() Example { return example(p, proof, known) }, broken, isNew, minSeq, s.now)
		if e.Status/100 == 2 && p.batch {
			s.addUncaptured(&e.Labels, TransportBatch, 1, minSeq)
		}
	}
	for i := range p.findings {
		f := &p.findings[i]
		if r := f.Report(accepted(e)); !r.Known {
			row := p.findingRow(f, r.Severity)
			about := a.memory.defect(s, e, &row, r.New)
			if about.Full = e.Capture == event.CaptureFull; e.Failed {
				about.ErrorText = p.failed.failure.ErrorText
			}
			s.emitFinding(&row, &about, r.First && counted, minSeq)
		}
	}
	p.cacheBroken(s, broken, minSeq)
	a.memory.verdicts(s, p, minSeq)
	x := p.observed()
	s.dropN(dropOverflow, a.detector.Completed(&x, proof, minSeq, s.now))
	for i := range x.Signals {
		if d := x.Signals[i].Defect; d != nil {
			a.memory.know(e, d)
		}
		s.emitSignal(&x.Subject, &x.Signals[i], e.Seq, minSeq)
	}
	a.contents.complete(s, p, e.Failed || len(p.findings) > 0 || s.found > found, minSeq)
	s.emitExchange(e)
}

// findingRow returns the row of f.
func (p *pending) findingRow(f *judge.Finding, s check.Severity) Finding {
	e, in := &p.row, f.Instance
	root := &in.Root
	summary := f.Summary
	if f.Tolerated > 0 {
		summary += fmt.Sprintf("; %s accepted this at least %d times from %s", e.Server, f.Tolerated, cmp.Or(e.Model, "this model"))
	}
	fingerprint := identity.Of(e.Labels.Service, e.Labels.Stage, f.Rule.ID, f.Detail, f.ToolName, root.ID)
	return Finding{
		ID: hex.EncodeToString(f.ID[:]), Fingerprint: fingerprint.Fingerprint(), Seq: e.Seq, FirstSeen: in.Since,
		Exchange: in.Exchange, ExchangeVersion: in.Version, ExchangeInstance: in.Process, ExchangeMessages: in.Messages,
		Code: in.Code, AnswerCode: root.AnswerCode,
		Labels: e.Labels, Attrs: e.Attrs, Conversation: e.Conversation, Provider: e.Provider, Model: e.Model, Dialect: e.Dialect, Variant: e.Variant,
		Rule: f.Rule.ID, Detail: f.Detail, Predicted: f.Predicted, Severity: s,
		Status: e.Status, Message: f.Message, ToolCallID: f.ToolCallID, ToolName: f.ToolName, Summary: summary,
		RootCause: root.ID, Confidence: root.Confidence, Evidence: root.Evidence, Fix: f.Fix(),
	}
}

// subject returns the part of the exchange that signals retain.
func (p *pending) subject() signals.Subject {
	e := &p.row
	x := signals.Subject{
		Labels: e.Labels, Attrs: e.Attrs, Exchange: e.ID, Code: e.Code, Conversation: e.Conversation, Instance: p.agentProcess(), Origin: e.Origin, Provider: e.Provider,
		Model: e.Model, Dialect: e.Dialect, Variant: e.Variant, Status: e.Status, Messages: e.Messages, Degraded: e.Degraded, SeenAt: e.StoredAt,
		Full: e.Capture == event.CaptureFull,
	}
	if p.failed != nil {
		x.Failure = p.failed.failure
	}
	if e.Origin == event.OriginImport {
		x.SeenAt = e.StartedAt
	}
	if p.turn != nil {
		x.Root, x.Branch = p.turn.Root, p.turn.Branch
	}
	return x
}

// observed returns the exchange as the input of the signal detector.
func (p *pending) observed() signals.Exchange {
	e := &p.row
	x := signals.Exchange{
		Subject: p.subject(), Turn: p.turn, Target: p.target, Process: e.Instance, Capture: e.Capture, StartedAt: e.StartedAt,
		Findings: p.findings, Signals: p.signals, Request: p.request, Loop: p.loop,
		Stream: e.Stream, Failed: e.Failed, Refused: refused(e), ErrorType: e.ErrorType, ErrorText: e.ErrorText, ErrorCluster: e.ErrorCluster,
		Cause: e.Cause, CauseKnown: e.CauseKnown, Rejects: e.Rejects, ResponseBytes: e.ResponseBytes,
	}
	if p.failed != nil {
		x.Denial, x.Fix = p.failed.why.Denial, p.failed.why.Fix
	}
	return x
}

// failureOf returns why e failed; known is the ledger's record of the failure, or nil.
func failureOf(e *Exchange, known *ledger.Record) *signals.Failure {
	f := &signals.Failure{
		Cause: e.Cause, RootCause: e.RootCause, ErrorText: strings.Clone(limit.Text(e.ErrorText, maxExampleText)), Full: e.Capture == event.CaptureFull,
	}
	if known != nil {
		know(f, known)
	}
	return f
}

// findingExample returns the example of f for alerts.
func findingExample(f *Finding, about *signals.Failure, now time.Time) Example {
	x := Example{
		Finding: true, Exchange: f.Exchange, Conversation: f.Conversation, Full: about.Full, Status: f.Status, ErrorText: about.ErrorText,
		Rule: f.Rule, Message: f.Message, ToolCallID: limit.Text(f.ToolCallID, maxExampleText), ToolName: f.ToolName,
		Summary: limit.Text(f.Summary, maxExampleText), Evidence: limit.Text(f.Evidence, maxExampleText), Fix: f.Fix, PublishedAt: now.UnixNano(),
		FirstVersion: limit.Text(about.FirstVersion, maxLabelBytes), LastClean: limit.Text(about.LastClean, maxLabelBytes), CleanCalls: about.CleanCalls,
	}
	if !about.FirstAt.IsZero() {
		x.FirstAt = about.FirstAt.UnixNano()
	}
	return x
}

// example returns the example of p for alerts. f is the finding that represents it, and known is the ledger's record of
// the failure; both may be nil.
func example(p *pending, f *judge.Finding, known *ledger.Record) Example {
	e := &p.row
	ex := Example{
		Exchange: e.ID, Conversation: e.Conversation, Full: e.Capture == event.CaptureFull, Status: e.Status,
		ErrorText: limit.Text(e.ErrorText, maxExampleText), Guessed: e.CauseKnown == cause.Guessed, Message: -1,
		PublishedAt: e.StoredAt.UnixNano(),
	}
	if known != nil {
		ex.FirstVersion, ex.FirstAt = limit.Text(known.First.Version, maxLabelBytes), known.First.At.UnixNano()
		ex.LastClean, ex.CleanCalls = limit.Text(known.LastClean, maxLabelBytes), known.CleanCalls
	}
	if f == nil {
		if p.failed != nil {
			ex.Fix = p.failed.why.Fix
		}
		return ex
	}
	ex.Rule, ex.Message, ex.ToolCallID, ex.Summary = f.Rule.ID, f.Message, limit.Text(f.ToolCallID, maxExampleText), f.Summary
	ex.ToolName = f.ToolName
	ex.Evidence, ex.Fix = limit.Text(f.Instance.Root.Evidence, maxExampleText), f.Fix()
	return ex
}

package analyzer

import (
	"encoding/hex"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// judge finds the violations of the request in a.req and their root causes, and the calls that it answers.
func (a *Analyzer) judge(o *open, body []byte, at Position, seen time.Time, need uint64) {
	e := &o.row
	instance := e.Instance
	if e.Origin != event.OriginHook {
		instance = "" // that of the proxy or importer, not of the agent
	}
	r := judge.Request{
		In: session.In{
			Seq: at.Seq, Need: need, Time: at.Time, Seen: seen, Service: memoryOf(e.Labels.Service, e.Origin, e.Instance), Conversation: e.Labels.Conversation,
			Exchange: e.ID, Instance: instance, Run: e.Labels.Run, Sent: e.StartedAt, Fresh: instance != "" && e.InstanceSeq == 1,
			Shaped: e.Capture == event.CaptureShape, Target: o.target, Facts: &a.req, Body: body,
		},
		Sender: e.Labels.Service, Version: e.Labels.ServiceVersion,
	}
	o.turn, o.found = a.judging.Request(&r)
	e.Conversation, e.Inferred = o.turn.Conversation, o.turn.Inferred
	a.replies(o, at)
	e.Findings = len(o.found)
	for i := range o.found {
		if o.found[i].Predicted == check.Reject {
			e.Rejects++
		}
	}
	a.judging.FindRejecters(&r, o.found)
}

// memoryOf is the name under which conversations of a service are remembered. Each import has a memory of its own:
// imported again, the same follows from the same lines, and what is recorded and what is live never explain each other.
func memoryOf(service, origin, instance string) string {
	if origin == event.OriginImport {
		return service + "@" + instance
	}
	return service
}

// report puts out the rows of a completed exchange and counts it.
func (a *Analyzer) report(o *open, need uint64) {
	e := &o.row
	if o.turn != nil {
		a.sessions.End(o.turn)
	}
	a.settled(o)
	a.runReported(o, need)
	a.endsOnError(o, need)
	proof := primary(o)
	if proof != nil {
		e.RootCause = proof.Instance.Root.ID
	}
	known, isNew := a.note(o)
	counted := e.Origin != event.OriginImport // nobody is paged for last month
	if counted {
		a.counter.exchange(e, func() Example { return example(e, proof, known) }, isNew, need, a.now)
	}
	if a.emit {
		a.metrics.exchanges.Inc()
		a.out.Exchanges = append(a.out.Exchanges, *e)
	}
	accepted := e.Status >= 200 && e.Status < 300 && !e.Failed
	for i := range o.found {
		f := &o.found[i]
		r := f.Report(accepted)
		if r.Known {
			continue
		}
		row := a.finding(o, f, r.Severity)
		a.noteDefect(e, &row, r.New)
		if r.First && counted {
			a.counter.finding(&row, need, a.now)
		}
		if a.emit {
			a.metrics.findings.Inc()
			a.out.Findings = append(a.out.Findings, row)
		}
	}
	a.verdicts(o, need)
	a.watch(o, proof, accepted, need)
	if len(o.signals) > 0 {
		s := about(o)
		for i := range o.signals {
			a.put(s, &o.signals[i], e.Seq, need)
		}
	}
}

// finding is the row of f.
func (a *Analyzer) finding(o *open, f *judge.Finding, s check.Severity) Finding {
	e, root := &o.row, &f.Instance.Root
	fingerprint := identity.Of(e.Labels.Service, e.Labels.Stage, f.Rule.ID, f.Detail, f.ToolName, root.ID)
	return Finding{
		ID: hex.EncodeToString(f.ID[:]), Fingerprint: fingerprint.Fingerprint(), Seq: e.Seq, FirstSeen: f.Instance.Since,
		Exchange: f.Instance.Exchange, ExchangeVersion: f.Instance.Version, ExchangeInstance: f.Instance.Process, ExchangeMessages: f.Instance.Messages, Labels: e.Labels, Conversation: e.Conversation, Provider: e.Provider, Model: e.Model,
		Dialect: e.Dialect, Variant: e.Variant, Rule: f.Rule.ID, Detail: f.Detail, Predicted: f.Predicted, Severity: s,
		Status: e.Status, Message: f.Message, ToolCallID: f.ToolCallID, ToolName: f.ToolName, Summary: f.Summary,
		RootCause: root.ID, Confidence: root.Confidence, Evidence: root.Evidence, Fix: f.Fix(),
	}
}

// primary is the finding that stands for the exchange: of a failed one, a finding that shows its cause, because a
// request that failed for a rate limit did not fail for its history.
func primary(o *open) *judge.Finding {
	var best *judge.Finding
	score := 0
	for i := range o.found {
		f := &o.found[i]
		if o.row.Failed {
			of := cause.OfRule(f.Rule.ID)
			if of != o.row.Cause && (o.row.CauseKnown != cause.Conflict || f.Predicted != check.Reject) {
				continue
			}
		}
		if n := 1 + f.Instance.Root.Rank()*4 + f.Predicted.Rank(); n > score {
			best, score = f, n
		}
	}
	return best
}

// example is the proof that e gives an alert; known is what the ledger knows of why it failed, or nil.
func example(e *Exchange, f *judge.Finding, known *ledger.Record) Example {
	ex := Example{
		Exchange: e.ID, Conversation: e.Conversation, Status: e.Status, ErrorText: limit.Text(e.ErrorText, maxExampleText), Message: -1,
		PublishedAt: e.StoredAt.UnixNano(),
	}
	if known != nil {
		ex.FirstVersion, ex.FirstAt = limit.Text(known.First.Version, maxLabelBytes), known.First.At.UnixNano()
		ex.LastClean = limit.Text(known.LastClean, maxLabelBytes)
	}
	if f == nil {
		_, ex.Fix = cause.Meaning(e.Cause)
		return ex
	}
	root := &f.Instance.Root
	ex.Rule, ex.Message, ex.ToolCallID, ex.Summary = f.Rule.ID, f.Message, f.ToolCallID, f.Summary
	ex.ToolCallID = limit.Text(ex.ToolCallID, maxExampleText)
	ex.Evidence, ex.Fix = limit.Text(root.Evidence, maxExampleText), f.Fix()
	return ex
}

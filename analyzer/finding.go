package analyzer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// found is a violation with its identity in a conversation.
type found struct {
	check.Violation
	id       [16]byte
	instance *session.Instance
}

// maxExplained bounds the defects of one request whose root causes are looked for: each walks the whole history.
const maxExplained = 100

// judge finds the violations of the request in a.req and their root causes, and the calls that it answers.
func (a *Analyzer) judge(o *open, body []byte, at Position, seen time.Time, need uint64) {
	e := &o.row
	service := memoryOf(e.Labels.Service, e.Origin, e.Instance)
	instance := e.Instance
	if e.Origin != event.OriginHook {
		instance = "" // that of the proxy or importer, not of the agent
	}
	t := a.sessions.Request(session.In{
		Seq: at.Seq, Need: need, Time: at.Time, Seen: seen, Service: service, Conversation: e.Labels.Conversation, Exchange: e.ID,
		Instance: instance, Run: e.Labels.Run, Sent: e.StartedAt, Fresh: instance != "" && e.InstanceSeq == 1, Shaped: e.Capture == event.CaptureShape, Target: o.target, Facts: &a.req, Body: body,
	})
	o.turn, e.Conversation, e.Inferred = t, t.Conversation, t.Inferred
	before := check.Before{}
	if calls, known := t.Chained(); known {
		before.Chain = &check.Chain{Calls: calls}
	}
	before.Signed, before.Copy = t.Signed()
	violations := a.checker.Check(&a.req, o.target, &before)
	a.replies(o, violations, at)
	if len(violations) == 0 {
		return
	}
	e.Findings = len(violations)
	o.found = make([]found, 0, len(violations))
	explained := 0
	for i := range violations {
		v := &violations[i]
		if v.Predicted == check.Reject {
			e.Rejects++
		}
		if v.ToolName == "" && v.ToolCallID != "" {
			v.ToolName = t.ToolName(v.ToolCallID)
		}
		what := v.ToolCallID
		if what == "" && v.Message >= 0 && v.Message < len(a.req.Messages) {
			what = strconv.FormatUint(t.Identity(v.Message), 16)
		}
		f := found{Violation: *v}
		sum := digest(e.Labels.Service, t.Root, t.Branch, v.Rule.ID, what)
		copy(f.id[:], sum[:])
		var fresh bool
		if f.instance, fresh = a.sessions.Seen(t, f.id); fresh {
			f.instance.Version, f.instance.Process, f.instance.Messages = e.Labels.ServiceVersion, instance, e.Messages
		}
		// The first root cause stays: later turns only send the defect again.
		if (fresh || f.instance.Root.Rank() == 0) && explained < maxExplained {
			explained++
			root := t.RootCause(session.Symptom{Rule: v.Rule.ID, Detail: v.Detail, Message: v.Message, ToolCallID: v.ToolCallID})
			if fresh || root.Rank() > 0 {
				f.instance.Root = root
			}
		}
		if f.ToolName = name(f.ToolName); len(f.ToolCallID) > maxCallID {
			f.ToolCallID = strings.Clone(f.ToolCallID[:maxCallID])
		}
		o.found = append(o.found, f)
	}
	a.rejecters(o, &before)
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
		e.RootCause = proof.instance.Root.ID
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
		severity := f.Predicted.Rank()
		if accepted {
			severity = min(severity, check.Lenient.Rank())
		}
		in := f.instance
		if severity <= in.Severity && in.Root.Rank() <= in.Rank {
			continue // reported already, and no weaker
		}
		first, newly := in.Severity == 0, in.Severity == 0 || in.Root.Rank() > in.Rank
		in.Severity, in.Rank = max(in.Severity, severity), in.Root.Rank()
		row := a.finding(o, f, check.Severities[in.Severity-1])
		a.noteDefect(e, &row, newly)
		if first && counted {
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
func (a *Analyzer) finding(o *open, f *found, s check.Severity) Finding {
	e, root := &o.row, &f.instance.Root
	fingerprint := digest(e.Labels.Service, e.Labels.Stage, f.Rule.ID, f.Detail, f.ToolName, root.ID)
	row := Finding{
		ID: hex.EncodeToString(f.id[:]), Fingerprint: hex.EncodeToString(fingerprint[:8]), Seq: e.Seq, FirstSeen: f.instance.Since,
		Exchange: f.instance.Exchange, ExchangeVersion: f.instance.Version, ExchangeInstance: f.instance.Process, ExchangeMessages: f.instance.Messages, Labels: e.Labels, Conversation: e.Conversation, Provider: e.Provider, Model: e.Model,
		Dialect: e.Dialect, Variant: e.Variant, Rule: f.Rule.ID, Detail: f.Detail, Predicted: f.Predicted, Severity: s,
		Status: e.Status, Message: f.Message, ToolCallID: f.ToolCallID, ToolName: f.ToolName, Summary: f.Summary,
		RootCause: root.ID, Confidence: root.Confidence, Evidence: root.Evidence, Fix: root.Fix,
	}
	if row.Fix == "" {
		row.Fix = f.Rule.Fix
	}
	return row
}

// primary is the finding that stands for the exchange: of a failed one, a finding that shows its cause, because a
// request that failed for a rate limit did not fail for its history.
func primary(o *open) *found {
	var best *found
	score := 0
	for i := range o.found {
		f := &o.found[i]
		if o.row.Failed {
			of := cause.OfRule(f.Rule.ID)
			if of != o.row.Cause && (o.row.CauseKnown != cause.Conflict || f.Predicted != check.Reject) {
				continue
			}
		}
		if n := 1 + f.instance.Root.Rank()*4 + f.Predicted.Rank(); n > score {
			best, score = f, n
		}
	}
	return best
}

// example is the proof that e gives an alert; known is what the ledger knows of why it failed, or nil.
func example(e *Exchange, f *found, known *record) Example {
	ex := Example{
		Exchange: e.ID, Conversation: e.Conversation, Status: e.Status, ErrorText: cut(e.ErrorText, maxExampleText), Message: -1,
		PublishedAt: e.StoredAt.UnixNano(),
	}
	if known != nil {
		ex.FirstVersion, ex.FirstAt = cut(known.First.Version, maxLabelBytes), known.First.At.UnixNano()
		ex.LastClean = cut(known.LastClean, maxLabelBytes)
	}
	if f == nil {
		_, ex.Fix = cause.Meaning(e.Cause)
		return ex
	}
	root := &f.instance.Root
	ex.Rule, ex.Message, ex.ToolCallID, ex.Summary = f.Rule.ID, f.Message, f.ToolCallID, f.Summary
	ex.ToolCallID = cut(ex.ToolCallID, maxExampleText)
	ex.Evidence, ex.Fix = cut(root.Evidence, maxExampleText), root.Fix
	if ex.Fix == "" {
		ex.Fix = f.Rule.Fix
	}
	return ex
}

// digest hashes a list of strings; no two lists are written alike.
func digest(parts ...string) [sha256.Size]byte {
	n := 0
	for _, p := range parts {
		n += 8 + len(p)
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

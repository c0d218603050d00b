package analyzer

import (
	"bytes"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A step is the processing of one event or timeout: the stream time and the output for rows.
type step struct {
	now       time.Time // stream time; never goes backwards
	seq       uint64    // sequence of the newest event
	completed uint32    // exchanges completed since that event
	found     uint64    // findings emitted so far, also in a replay
	emit      bool      // false during the silent replay after a start
	out       *Output   // may be nil if emit is false

	metrics *metrics
	tallies *counter
}

// drop counts a dropped event, body or piece of state.
func (s *step) drop(reason string) { s.dropN(reason, 1) }

func (s *step) dropN(reason string, n int) {
	if s.emit && n > 0 {
		s.metrics.dropped.WithLabelValues(reason).Add(float64(n))
	}
}

// deadLetter counts an event whose content could not be used and emits its beginning.
func (s *step) deadLetter(reason string, ev *event.Event, at Position, err error) {
	s.drop(reason)
	if !s.emit {
		return
	}
	d := DeadLetter{Reason: reason, Seq: at.Seq, Index: at.Index, Error: err.Error(), Event: *ev}
	d.Event.Body = bytes.Clone(ev.Body[:min(len(ev.Body), maxDeadBody)])
	s.out.Dead = append(s.out.Dead, d)
}

// emitted returns rows and the row to set to the one of the given id and version: a new one or, as what has one version is one row, the
// one that an earlier event of its frame has emitted. The rows of a message follow each other.
func emitted[R any](rows []R, id string, version uint64, key func(*R) (id string, version uint64)) ([]R, *R) {
	for i := len(rows) - 1; i >= 0; i-- {
		earlier, v := key(&rows[i])
		if v != version {
			break
		}
		if earlier == id {
			return rows, &rows[i]
		}
	}
	rows = slices.Grow(rows, 1)[:len(rows)+1]
	return rows, &rows[len(rows)-1]
}

func (s *step) emitExchange(e *Exchange) {
	if s.emit {
		s.metrics.exchanges.Inc()
		rows, row := emitted(s.out.Exchanges, e.ID, e.Seq, func(e *Exchange) (string, uint64) { return e.ID, e.Seq })
		*row, s.out.Exchanges = *e, rows
	}
}

func (s *step) emitToolCall(c *ToolCall) {
	if s.emit {
		s.metrics.calls.Inc()
		c.StoredAt = s.now
		rows, row := emitted(s.out.ToolCalls, c.ID, c.Seq, func(c *ToolCall) (string, uint64) { return c.ID, c.Seq })
		*row, s.out.ToolCalls = *c, rows
	}
}

func (s *step) emitRun(r *Run) {
	if s.emit {
		s.metrics.runs.Inc()
		rows, row := emitted(s.out.Runs, r.ID, r.Seq, func(r *Run) (string, uint64) { return r.ID, r.Seq })
		*row, s.out.Runs = *r, rows
	}
}

func (s *step) emitTally(t Tally) {
	if s.emit {
		s.metrics.tallies.Inc()
		s.out.Tallies = append(s.out.Tallies, t)
	}
}

// emitFinding emits f. minSeq is the oldest sequence of its events. If counted, f is included in the tallies, with the
// cause, the error text and the versions of about.
func (s *step) emitFinding(f *Finding, about *signals.Failure, counted bool, minSeq uint64) {
	s.found++
	if counted {
		s.tallies.finding(f, about, minSeq, s.now)
	}
	if s.emit {
		s.metrics.findings.Inc()
		f.StoredAt = s.now
		rows, row := emitted(s.out.Findings, f.ID, f.Seq, func(f *Finding) (string, uint64) { return f.ID, f.Seq })
		*row, s.out.Findings = *f, rows
	}
}

// emitSignal emits a signal about the exchange x; seq is the version of its row. The caller ensures that each instance
// is emitted once.
func (s *step) emitSignal(x *signals.Subject, sig *signals.Signal, seq, minSeq uint64) {
	if sig.About != nil {
		x = sig.About
	}
	id := identity.Of(x.Labels.Service, x.Root, x.Branch, sig.ID, sig.Key)
	fingerprint := identity.Of(x.Labels.Service, x.Labels.Stage, sig.ID, sig.Detail, sig.Tool, "")
	f := Finding{
		ID: id.ID(), Fingerprint: fingerprint.Fingerprint(), Seq: seq, FirstSeen: x.SeenAt,
		Exchange: x.Exchange, ExchangeVersion: x.Labels.ServiceVersion, ExchangeInstance: x.Instance, ExchangeMessages: x.Messages, Code: x.Code,
		Labels: x.Labels, Attrs: x.Attrs, Conversation: x.Conversation, Provider: x.Provider, Model: x.Model, Dialect: x.Dialect, Variant: x.Variant,
		Rule: sig.ID, Detail: sig.Detail, Predicted: check.Signal, Severity: check.Signal, Status: x.Status, Message: sig.Message,
		ToolCallID: sig.CallID, ToolName: limit.Name(sig.Tool), Summary: sig.Summary, Evidence: sig.Evidence, Fix: sig.Fix, RejectedBy: sig.RejectedBy,
	}
	if in := sig.First; in != nil {
		f.FirstSeen, f.Exchange, f.Code = in.Since, in.Exchange, in.Code
		f.ExchangeVersion, f.ExchangeInstance, f.ExchangeMessages = in.Version, in.Process, in.Messages
	}
	about := sig.Defect
	if about == nil && slices.Contains(signals.OfFailures, sig.ID) {
		about = x.Failure
	}
	if about == nil {
		about = &signals.Failure{Full: x.Full}
	}
	s.emitFinding(&f, about, x.Origin != event.OriginImport && !sig.Update, minSeq)
}

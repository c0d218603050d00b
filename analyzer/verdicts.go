package analyzer

import (
	"cmp"
	"encoding/hex"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// verdicts records how the provider answered the violations in the request of p, and emits a signal if the provider
// became stricter.
//
//	2xx                            ──> each violation of the request was accepted
//	4xx whose text names the rule  ──> the one violation of that rule was rejected
//	every other answer             ──> no evidence
//
// A violation that was accepted again and again is tolerated: Lenient is predicted instead of Reject, until a request
// fails because of it. Conversely, Reject is predicted for a violation that was refused and never accepted.
//
// A violation is identified by host, model, rule and detail. Rejections count only for a service version that was
// accepted before: a deploy that introduces the violation, or another form of it, was never accepted. The cause and
// root cause of the failed exchange do not change; the signal explains why the exchange failed now.
func (m *memory) verdicts(s *step, p *pending, minSeq uint64) {
	e := &p.row
	if len(p.findings) == 0 || e.Server == "" || !remembered(e) {
		return
	}
	switch {
	case accepted(e):
		for i := range p.findings {
			if !p.repeats(i) {
				m.verdict(s, e, &p.findings[i], true, minSeq)
			}
		}
	case e.Status >= 400 && e.Status < 500:
		if e.Retry == 0 && (e.CauseKnown == cause.Stated || e.CauseKnown == cause.Both) {
			if f := m.blamed(s, p, minSeq); f != nil {
				m.verdict(s, e, f, false, minSeq)
			}
		}
		m.refused(s, p)
	}
}

// predict changes the predicted severity of the violations that the model at the host of p accepted again and again, or
// refused and never accepted.
func (m *memory) predict(s *step, p *pending) {
	e, at := &p.row, ledger.Position{Seq: s.seq, Nth: s.completed}
	if len(p.findings) == 0 || e.Server == "" || !remembered(e) {
		return
	}
	for i := range p.findings {
		f := &p.findings[i]
		if f.Predicted != check.Reject && f.Predicted != check.Lenient {
			continue
		}
		switch r := m.Get(verdictKey(e, f)); {
		case r == nil:
		case f.Predicted == check.Reject && r.Verdict.Tolerance.At(at):
			f.Tolerate(r.Verdict.Tolerance.Proof)
			e.Rejects--
		case f.Predicted == check.Lenient && r.Verdict.RefusedAt(at):
			f.Predicted = check.Reject
			e.Rejects++
		}
	}
}

// refused ends the tolerance of the violations that explain the failure of p, also of those that its text does not
// name.
func (m *memory) refused(s *step, p *pending) {
	for i := range p.findings {
		f := &p.findings[i]
		if !s.emit || p.repeats(i) || cause.OfRule(f.Rule.ID) != p.row.Cause {
			continue
		}
		k := verdictKey(&p.row, f)
		if r := m.Get(k); r != nil && !r.Includes(m.sighting.Position) {
			m.See(&k, &m.sighting)
			r.Verdict.Tolerance.Refuse(&m.sighting)
		}
	}
}

// repeats reports whether finding i has the same rule and detail as the finding before it.
func (p *pending) repeats(i int) bool {
	return i > 0 && p.findings[i].Rule == p.findings[i-1].Rule && p.findings[i].Detail == p.findings[i-1].Detail
}

func verdictKey(e *Exchange, f *judge.Finding) ledger.Key {
	return ledger.Key{Kind: ledger.KindVerdict, Host: e.Server, Model: e.Model, Name: f.Rule.ID, Detail: f.Detail}
}

// blamed returns the violation that the provider's error text refers to; nil if the ledger already includes the
// exchange. Among several, it prefers a violation that was never accepted, because that explains the rejection without
// a change at the provider, and then the most severe one.
func (m *memory) blamed(s *step, p *pending, minSeq uint64) (best *judge.Finding) {
	e, score := &p.row, 0
	for i := range p.findings {
		f := &p.findings[i]
		if cause.OfRule(f.Rule.ID) != e.Cause || p.repeats(i) {
			continue
		}
		r := m.Get(verdictKey(e, f))
		if r != nil && r.Includes(m.sighting.Position) {
			m.reportAgain(s, e, f, r, minSeq)
			return nil
		}
		n := 1 + f.Predicted.Rank()
		if r == nil || r.Verdict.Client(e.Labels.Service, e.Labels.ServiceVersion) == nil {
			n += 10
		}
		if n > score {
			best, score = f, n
		}
	}
	return best
}

// verdict records that the provider accepted or rejected f.
func (m *memory) verdict(s *step, e *Exchange, f *judge.Finding, accepted bool, minSeq uint64) {
	k := verdictKey(e, f)
	if !s.emit || m.Has(&k, m.sighting.Position) {
		if r := m.Get(k); r != nil {
			m.reportAgain(s, e, f, r, minSeq)
		}
		return
	}
	r := m.See(&k, &m.sighting)
	r.VerdictAt = m.sighting.Position
	if r.Verdict == nil {
		r.Verdict = new(ledger.Verdict)
	}
	changed := false
	if accepted {
		changed = r.Verdict.Accept(&m.sighting, e.Labels.Service, e.Conversation)
	} else {
		what := e.Server + " rejects " + cmp.Or(e.Model, "requests") + " with " + violationName(f)
		changed = r.Verdict.Reject(&m.sighting, e.Labels.Service, e.Conversation, what)
	}
	if changed {
		m.emitTightened(s, e, f, r.Verdict, minSeq)
	}
}

// reportAgain emits and counts again the finding that the exchange caused when it was first read. Rows may be written
// twice, and a tally second that was open when a process ended is counted again.
func (m *memory) reportAgain(s *step, e *Exchange, f *judge.Finding, r *ledger.Record, minSeq uint64) {
	if r.VerdictAt == m.sighting.Position {
		return
	}
	r.VerdictAt = m.sighting.Position
	if p := r.Verdict.Report; p != nil && (p.Last == m.sighting.Position || p.Counted == m.sighting.Position) {
		m.emitTightened(s, e, f, r.Verdict, minSeq)
	}
}

// emitTightened emits the row of v, one per host, model, rule and detail, and counts it the first time. The row
// belongs to no conversation, because it is about the conversations of all services.
func (m *memory) emitTightened(s *step, e *Exchange, f *judge.Finding, v *ledger.Verdict, minSeq uint64) {
	r, labels := v.Report, e.Labels
	labels.Conversation, labels.Run, labels.User = "", "", ""
	id := identity.Of(signals.ProviderTightened, e.Server, e.Model, f.Rule.ID, f.Detail)
	s.emitFinding(&Finding{
		ID: id.ID(), Fingerprint: hex.EncodeToString(id[16:24]), Seq: e.Seq, FirstSeen: r.First.At,
		Exchange: r.First.Exchange, ExchangeVersion: r.First.Version, ExchangeInstance: r.First.Instance,
		Labels: labels, Provider: e.Provider, Model: e.Model, Dialect: e.Dialect, Variant: e.Variant,
		Rule: signals.ProviderTightened, Detail: violationName(f), Predicted: check.Signal, Severity: check.Signal, Status: e.Status, Message: -1,
		Summary: r.Summary, Confidence: r.Confidence, Evidence: r.Evidence, Fix: f.Rule.Fix,
	}, failureOf(e, nil), r.Counted == m.sighting.Position, minSeq)
}

// violationName returns the name of the violation of f outside its conversation.
func violationName(f *judge.Finding) string {
	if f.Detail == "" {
		return f.Rule.ID
	}
	return f.Rule.ID + " " + f.Detail
}

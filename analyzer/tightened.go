package analyzer

import (
	"cmp"
	"encoding/hex"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
)

// verdicts remembers what the answer of o says about the violations of its request, and puts out that a provider became
// stricter.
//
//	2xx                                ──> each violation of the request was accepted here
//	4xx whose text names the rule      ──> the one violation of that rule was rejected here
//	every other answer                 ──> says nothing about any
//
// A violation is one of a host, a model, a rule and its detail. Only rejections of the same version of a service that was
// accepted before count: a deploy that brings the violation along, or sends another form of it, was never accepted. The
// cause and root cause of the failed exchange stay what they are; this says why it broke today.
func (a *Analyzer) verdicts(o *open, need uint64) {
	e := &o.row
	if len(o.found) == 0 || e.Server == "" || !ledgered(e) {
		return
	}
	switch {
	case e.Status >= 200 && e.Status < 300 && !e.Failed:
		for i := range o.found {
			f := &o.found[i]
			if i > 0 && f.Rule == o.found[i-1].Rule && f.Detail == o.found[i-1].Detail {
				continue
			}
			a.verdict(o, f, true, need)
		}
	case e.Status >= 400 && e.Status < 500 && e.Retry == 0 && (e.CauseKnown == cause.Stated || e.CauseKnown == cause.Both):
		if f := a.blamed(o, need); f != nil {
			a.verdict(o, f, false, need)
		}
	}
}

// verdictKey is the key of what e's provider says about f.
func verdictKey(e *Exchange, f *judge.Finding) ledger.Key {
	return ledger.Key{Kind: ledger.KindVerdict, Host: e.Server, Model: e.Model, Name: f.Rule.ID, Detail: f.Detail}
}

// blamed is the violation that the provider's text is about; nil when the exchange was taken before. Where several fit,
// one that was never accepted explains the rejection without a change of the provider's mind; else it is the worst.
func (a *Analyzer) blamed(o *open, need uint64) (best *judge.Finding) {
	e, score := &o.row, 0
	for i := range o.found {
		f := &o.found[i]
		if cause.OfRule(f.Rule.ID) != e.Cause || i > 0 && f.Rule == o.found[i-1].Rule && f.Detail == o.found[i-1].Detail {
			continue
		}
		k := verdictKey(e, f)
		r := a.ledger.Get(k)
		if r != nil && r.Includes(a.sighting.Position) {
			a.retell(o, f, r, need)
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

// verdict remembers that o's provider accepted or rejected f.
func (a *Analyzer) verdict(o *open, f *judge.Finding, accepted bool, need uint64) {
	e, k := &o.row, verdictKey(&o.row, f)
	if !a.emit || a.ledger.Has(&k, a.sighting.Position) {
		if r := a.ledger.Get(k); r != nil {
			a.retell(o, f, r, need)
		}
		return
	}
	r := a.ledger.See(&k, &a.sighting)
	r.VerdictAt = a.sighting.Position
	if r.Verdict == nil {
		r.Verdict = new(ledger.Verdict)
	}
	report := false
	if accepted {
		report = r.Verdict.Accept(&a.sighting, e.Labels.Service, e.Conversation)
	} else {
		report = r.Verdict.Reject(&a.sighting, e.Labels.Service, e.Conversation, e.Server+" rejects "+cmp.Or(e.Model, "requests")+" with "+violationName(f))
	}
	if report {
		a.tell(o, f, r.Verdict, need)
	}
}

// retell puts out again what was put out, and counts what was counted, when the exchange was taken before: rows may be
// made again, and a second that was open when a process ended is counted anew.
func (a *Analyzer) retell(o *open, f *judge.Finding, r *ledger.Record, need uint64) {
	if r.VerdictAt == a.sighting.Position {
		return
	}
	r.VerdictAt = a.sighting.Position
	if t := r.Verdict.Report; t != nil && (t.Last == a.sighting.Position || t.Counted == a.sighting.Position) {
		a.tell(o, f, r.Verdict, need)
	}
}

// tell puts out the row of v, one per host, model, rule and detail, and counts it when it begins. It is about no
// conversation: those of all services are in it.
func (a *Analyzer) tell(o *open, f *judge.Finding, v *ledger.Verdict, need uint64) {
	e, t := &o.row, v.Report
	labels := e.Labels
	labels.Conversation, labels.Run, labels.User = "", "", ""
	id := identity.Of(ProviderTightened, e.Server, e.Model, f.Rule.ID, f.Detail)
	row := Finding{
		ID: id.ID(), Fingerprint: hex.EncodeToString(id[16:24]), Seq: e.Seq, FirstSeen: t.First.At,
		Exchange: t.First.Exchange, ExchangeVersion: t.First.Version, ExchangeInstance: t.First.Instance,
		Labels: labels, Provider: e.Provider, Model: e.Model, Dialect: e.Dialect, Variant: e.Variant,
		Rule: ProviderTightened, Detail: violationName(f), Predicted: check.Signal, Severity: check.Signal, Status: e.Status, Message: -1,
		Summary: t.Summary, Confidence: t.Confidence, Evidence: t.Evidence, Fix: f.Rule.Fix,
	}
	if t.Counted == a.sighting.Position {
		a.counter.finding(&row, need, a.now)
	}
	if a.emit {
		a.metrics.findings.Inc()
		a.out.Findings = append(a.out.Findings, row)
	}
}

// violationName names the violation f without its conversation.
func violationName(f *judge.Finding) string {
	if f.Detail == "" {
		return f.Rule.ID
	}
	return f.Rule.ID + " " + f.Detail
}

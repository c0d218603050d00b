package analyzer

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
)

// proofLasts is how long an acceptance proves that what is rejected now was accepted before.
const proofLasts = 4 * 7 * 24 * time.Hour

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
func verdictKey(e *Exchange, f *judge.Finding) LedgerKey {
	return LedgerKey{Kind: LedgerVerdict, Host: e.Server, Model: e.Model, Name: f.Rule.ID, Detail: f.Detail}
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
		r := a.ledger.entries[k]
		if r != nil && a.sighting.Place.compare(r.Last) <= 0 {
			a.retell(o, f, r, need)
			return nil
		}
		n := 1 + f.Predicted.Rank()
		if r == nil || r.Verdict.client(e.Labels.Service, e.Labels.ServiceVersion) == nil {
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
	if !a.emit || a.ledger.has(&k, a.sighting.Place) {
		if r := a.ledger.entries[k]; r != nil {
			a.retell(o, f, r, need)
		}
		return
	}
	r := a.ledger.see(&k, &a.sighting)
	r.at = a.sighting.Place
	if r.Verdict == nil {
		r.Verdict = new(Verdict)
	}
	v, talk := r.Verdict, hash32(e.Conversation, 0)
	if accepted {
		if v.accept(&a.sighting, e.Labels.Service, hash32(e.Conversation, e.StoredAt.Unix()/3600)) && v.Told != nil && v.Told.Open {
			v.Told.Open, v.Told.Confidence, v.Told.Place = false, session.Low, a.sighting.Place
			v.Told.Evidence += "; accepted again at " + clock(a.sighting.At)
			a.tell(o, f, v, need)
		}
		return
	}
	if !v.reject(&a.sighting, e.Labels.Service, talk) {
		return
	}
	confidence, clients := v.confidence(), v.flipped()
	switch t := v.Told; {
	case confidence == "":
		return
	case t == nil || !t.Open:
		v.Told = &Told{Counted: a.sighting.Place, First: v.Run.First, Open: true}
	case t.Confidence == confidence && t.Clients == clients && v.Run.Count < t.Next:
		return // nothing that is worth another version of the row
	}
	t := v.Told
	t.Place, t.Confidence, t.Clients, t.Next = a.sighting.Place, confidence, clients, 2*v.Run.Count
	t.Summary = fmt.Sprintf("%s rejects %s with %s, which it accepted %d times until %s", e.Server, orUnknown(e.Model), violationName(f), v.Accepted.Count, clock(v.Accepted.Last.At))
	t.Evidence = v.evidence()
	a.tell(o, f, v, need)
}

// retell puts out again what was put out, and counts what was counted, when the exchange was taken before: rows may be
// made again, and a second that was open when a process ended is counted anew.
func (a *Analyzer) retell(o *open, f *judge.Finding, r *record, need uint64) {
	if r.at == a.sighting.Place {
		return
	}
	r.at = a.sighting.Place
	if t := r.Verdict.Told; t != nil && (t.Place == a.sighting.Place || t.Counted == a.sighting.Place) {
		a.tell(o, f, r.Verdict, need)
	}
}

// tell puts out the row of v, one per host, model, rule and detail, and counts it when it begins. It is about no
// conversation: those of all services are in it.
func (a *Analyzer) tell(o *open, f *judge.Finding, v *Verdict, need uint64) {
	e, t := &o.row, v.Told
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
	if t.Counted == a.sighting.Place {
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

// evidence says what was accepted, by whom and until when, and what is rejected since.
func (v *Verdict) evidence() string {
	var b strings.Builder
	n := &v.Accepted
	fmt.Fprintf(&b, "accepted %d times from %s to %s, by ", n.Count, clock(n.First.At), clock(n.Last.At))
	for i := range v.Clients {
		if i > 0 {
			b.WriteString(", ")
		}
		v.Clients[i].write(&b)
	}
	in := "one conversation"
	if v.Run.Conversations > 1 {
		in = fmt.Sprintf("%d conversations", v.Run.Conversations)
	}
	fmt.Fprintf(&b, "; rejected since %s, %d times in %s, and not accepted since", clock(v.Run.First.At), v.Run.Count, in)
	if v.Flapped > 0 {
		fmt.Fprintf(&b, "; %d conversations were rejected before at times, so it may change again", v.Flapped)
	}
	return b.String()
}

func (c *Client) write(b *strings.Builder) {
	b.WriteString(c.Service)
	if c.Version != "" {
		b.WriteString(" " + limit.Text(c.Version, 64))
	}
	fmt.Fprintf(b, " (%d times", c.Accepted)
	if !c.Rejected.IsZero() {
		b.WriteString(", rejected since " + clock(c.Rejected))
	}
	b.WriteString(")")
}

// clock writes stream time for humans.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func orUnknown(model string) string {
	if model == "" {
		return "requests"
	}
	return model
}

// hash32 is the FNV-1a hash of s and n.
func hash32(s string, n int64) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	for range 8 {
		h = (h ^ uint32(n&0xff)) * 16777619
		n >>= 8
	}
	return h
}

package analyzer

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// model records which model answered p, and emits a signal if it replaces the one that answered before: an alias, such as gpt-5-mini,
// stands for another snapshot now. A model that answered before does not replace another, because a provider may use several.
//
// The fingerprint of an answer (system_fingerprint) is not compared: OpenAI uses several at once and changes them every few days.
func (m *memory) model(s *step, p *pending, minSeq uint64) {
	e := &p.row
	if e.ResponseModel == "" || e.Model == "" || !accepted(e) || !remembered(e) || p.batch {
		return
	}
	k := ledger.Key{Kind: ledger.KindModel, Service: e.Labels.Service, Stage: e.Labels.Stage, Host: e.Provider, Model: e.Model, Name: e.ResponseModel}
	var r *ledger.Record
	if s.emit {
		r = m.SeeModel(&k, &m.sighting)
	} else if r = m.Get(k); r == nil {
		return
	}
	if r.Replaced != m.sighting.Position || r.Replaced == (ledger.Position{}) {
		return
	}
	labels := e.Labels
	labels.Conversation, labels.Run, labels.User = "", "", ""
	id := identity.Of(signals.ModelChanged, k.Service, k.Stage, k.Host, k.Model, k.Name)
	fingerprint := identity.Of(k.Service, k.Stage, signals.ModelChanged, k.Name, "", "")
	s.emitFinding(&Finding{
		ID: id.ID(), Fingerprint: fingerprint.Fingerprint(), Seq: e.Seq, FirstSeen: r.First.At,
		Exchange: r.First.Exchange, ExchangeVersion: r.First.Version, ExchangeInstance: r.First.Instance,
		Labels: labels, Provider: e.Provider, Model: e.Model, Dialect: e.Dialect, Variant: e.Variant,
		Rule: signals.ModelChanged, Detail: k.Name, Predicted: check.Signal, Severity: check.Signal, Status: e.Status, Message: -1,
		Summary:  fmt.Sprintf("%s is now %s, was %s", k.Model, k.Name, r.LastClean),
		Evidence: fmt.Sprintf("since %s; before, %s answered at least %d calls of the stage", r.First.At.UTC().Format("2006-01-02 15:04 UTC"), r.LastClean, r.CleanCalls),
		Fix:      "Request a snapshot by its full name, or run your evaluations with the new model.",
	}, &signals.Failure{}, true, minSeq)
}

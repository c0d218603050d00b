package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// Signals are what no rule of one request shows (RULES.md section 6). Each is a Finding whose Rule is one of these, whose
// Predicted and Severity are check.Signal.
const (
	LatentViolation          = "latent_violation"            // accepted here, rejected by the targets in Finding.RejectedBy
	MaskedFailure            = "masked_failure"              // a run reported ok though its last call failed
	ConversationEndedOnError = "conversation_ended_on_error" // nothing came after a failed call, and no run event says why
	RetryStorm               = "retry_storm"
	PoisonedSession          = "poisoned_session"
	ReplyNeverArrived        = "reply_never_arrived"
	HistoryRewritten         = "history_rewritten"
	HistoryShrunk            = "history_shrunk"
	ConcurrentRequests       = "concurrent_session_requests"
	StreamErrorIn200         = "stream_error_in_200"
	StreamCut                = "stream_cut"
	TruncatedToolCall        = "truncated_tool_call"
	FinishMismatch           = "finish_mismatch"
	ErrorRuleMismatch        = "error_rule_mismatch"
	Unexplained400           = "unexplained_400"
	SanitizerAtWork          = "sanitizer_at_work"
	ProviderTightened        = "provider_tightened"
	NoResponse               = "no_response"
)

// A subject is the exchange that a signal is about: what its row needs, small enough to be remembered by a conversation.
type subject struct {
	labels                                   event.Labels
	exchange, conversation, instance, origin string
	provider, model, dialect, variant        string
	root, branch                             string // of the conversation; "" when the request was not judged
	status, messages                         int
	degraded                                 bool
	seenAt                                   time.Time
}

// about is the subject for signals of o.
func about(o *open) *subject {
	e := &o.row
	s := &subject{
		labels: e.Labels, exchange: e.ID, conversation: e.Conversation, origin: e.Origin, provider: e.Provider,
		model: e.Model, dialect: e.Dialect, variant: e.Variant, status: e.Status, messages: e.Messages, degraded: e.Degraded, seenAt: e.StoredAt,
	}
	if e.Origin == event.OriginHook {
		s.instance = e.Instance // else that of the proxy or importer, not of the agent
	}
	if e.Origin == event.OriginImport {
		s.seenAt = e.StartedAt
	}
	if o.turn != nil {
		s.root, s.branch = o.turn.Root, o.turn.Branch
	}
	return s
}

// A signal is one instance of one of the Signals.
type signal struct {
	id, detail, summary, evidence, fix string
	message                            int      // 0-based index in messages as sent; -1 when it is about none
	callID, tool                       string   // of the call it is about
	rejectedBy                         []string // of a LatentViolation: targets, sorted
	// key tells instances in one conversation apart: a call id, a hash of a message, the id of an exchange. What shows
	// again under the same key is the same row.
	key    string
	first  *session.Instance // of the exchange that showed it first; nil when that is the subject
	of     *subject          // in place of the subject; nil for none
	update bool              // the row is out and counted; this is a newer version of it
}

// put puts out the row of a signal and counts it; seq is the row's version, need the oldest sequence that it was made
// from. Whoever calls it makes sure that an instance is put out once.
func (a *Analyzer) put(s *subject, sig *signal, seq, need uint64) {
	if sig.of != nil {
		s = sig.of
	}
	id := identity.Of(s.labels.Service, s.root, s.branch, sig.id, sig.key)
	fingerprint := identity.Of(s.labels.Service, s.labels.Stage, sig.id, sig.detail, sig.tool, "")
	row := Finding{
		ID: id.ID(), Fingerprint: fingerprint.Fingerprint(), Seq: seq, FirstSeen: s.seenAt,
		Exchange: s.exchange, ExchangeVersion: s.labels.ServiceVersion, ExchangeInstance: s.instance, ExchangeMessages: s.messages,
		Labels: s.labels, Conversation: s.conversation, Provider: s.provider, Model: s.model, Dialect: s.dialect, Variant: s.variant,
		Rule: sig.id, Detail: sig.detail, Predicted: check.Signal, Severity: check.Signal, Status: s.status, Message: sig.message,
		ToolCallID: sig.callID, ToolName: limit.Name(sig.tool), Summary: sig.summary, Evidence: sig.evidence, Fix: sig.fix, RejectedBy: sig.rejectedBy,
	}
	if in := sig.first; in != nil {
		row.FirstSeen, row.Exchange = in.Since, in.Exchange
		row.ExchangeVersion, row.ExchangeInstance, row.ExchangeMessages = in.Version, in.Process, in.Messages
	}
	if s.origin != event.OriginImport && !sig.update {
		a.counter.finding(&row, need, a.now)
	}
	if a.emit {
		a.metrics.findings.Inc()
		a.out.Findings = append(a.out.Findings, row)
	}
}

package show

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/stored"
)

// An Exchange is one stored exchange with its findings and messages.
type Exchange struct {
	stored.Exchange
	Findings []Finding `json:"findings"`          // findings first seen in this exchange
	Earlier  []Finding `json:"earlier_findings"`  // findings of earlier exchanges, whose defects may still be in the history
	Missing  []string  `json:"missing,omitempty"` // parts that are not stored, with the reason if known

	Stream     bool     `json:"-"` // the agent read the answer as a stream
	Parameters string   `json:"-"` // the request without its messages; "" if not stored
	Messages   []string `json:"-"` // as sent, after redaction; "" for a message that is not stored
	Answer     string   `json:"-"` // "" if not stored or if the call failed
	messagesAt int
	withheld   bool // the bodies were replaced by their shapes
	degraded   bool // the messages are those that an instrumentation reported
	sdk        string

	storedAt                   time.Time // stream time, as in findings
	run, process               string    // the run of the agent and the instance of the hook
	count                      int       // number of messages
	branch, parameters, answer string
	lead                       []string
	marked                     map[uint32]string
}

// Body returns the request as sent, except for redacted values and the white space between messages; ok is false if parts
// are missing or withheld.
func (e *Exchange) Body() (body string, ok bool) {
	if e.Parameters == "" || len(e.Missing) > 0 || e.withheld {
		return "", false
	}
	if e.branch == "" {
		return e.Parameters, true
	}
	return e.Parameters[:e.messagesAt] + strings.Join(e.Messages, ",") + e.Parameters[e.messagesAt:], true
}

// exchangeColumns are the columns that newExchange reads.
const exchangeColumns = `exchange_id, conversation_id, started_at, stored_at, service, service_version, environment, agent, stage, server, path, dialect, variant,
	model, status, duration, cause, cause_known, root_cause, error_type, error_text, output_tokens, finish_reason, retry, capture,
	user, run_id, instance, stream, messages, branch, lead, marked, parameters, messages_at, answer, degraded, sdk, code, texts_dropped, texts_share, ` + stored.CacheColumns

func newExchange(r rows.Row) *Exchange {
	e := &Exchange{
		Exchange: stored.Exchange{
			ID: r.Text("exchange_id"), Conversation: r.Text("conversation_id"), StartedAt: r.Time("started_at"), Service: r.Text("service"),
			ServiceVersion: r.Text("service_version"), Environment: r.Text("environment"), Agent: r.Text("agent"), Stage: r.Text("stage"),
			Server: r.Text("server"), Path: r.Text("path"), Dialect: r.Text("dialect"), Variant: r.Text("variant"), Model: r.Text("model"),
			Status: r.Int("status"), Seconds: r.Float("duration"), Cause: r.Text("cause"), CauseKnown: r.Text("cause_known"),
			RootCause: r.Text("root_cause"), ErrorType: r.Text("error_type"), ErrorText: r.Text("error_text"), InputTokens: r.Int("input_tokens"),
			OutputTokens: r.Int("output_tokens"), FinishReason: r.Text("finish_reason"), Retry: r.Int("retry"), Capture: r.Text("capture"), User: r.Text("user"), Code: r.Text("code"),
			Cache: stored.CacheOf(r), TextsDropped: r.Text("texts_dropped"), TextsShare: r.Float("texts_share"),
		},
		storedAt: r.Time("stored_at"), Findings: []Finding{}, Earlier: []Finding{},
		count: r.Int("messages"), branch: r.Text("branch"), lead: r.Texts("lead"), parameters: r.Text("parameters"),
		messagesAt: r.Int("messages_at"), answer: r.Text("answer"), run: r.Text("run_id"), process: r.Text("instance"), sdk: r.Text("sdk"),
	}
	e.marked, _ = r["marked"].(map[uint32]string)
	e.Stream, _ = r["stream"].(bool)
	e.degraded, _ = r["degraded"].(bool)
	return e
}

// ids returns the content ids of the messages in order, with or without cache marks; "" if a content is unknown.
func (e *Exchange) ids(all branches, marks bool) []string {
	ids := slices.Clone(e.lead)
	for i := range max(0, e.count-len(e.lead)) {
		id, ok := e.marked[uint32(i)]
		if !ok || !marks {
			id, _ = all.find(e.branch, i)
		}
		ids = append(ids, id)
	}
	return ids
}

// stored reports whether the request was stored; if not, it adds the reason to Missing.
func (e *Exchange) stored() bool {
	switch {
	case e.branch != "" || e.parameters != "":
		return true
	case e.TextsDropped != "":
		e.miss("request and answer: %s", e.WhyDropped())
	case e.Capture == "none":
		e.miss("request and answer: captured as none, without bodies")
	case e.Capture == "cut":
		e.miss("request and answer: the hook cut the body, which is over 16 MiB")
	case e.Dialect == "other" || e.Dialect == "":
		e.miss("request and answer: in a dialect that llmtap does not read")
	default:
		e.miss("request and answer: bodies not stored (storing is disabled for this service, or they are older than the storing of bodies)")
	}
	return false
}

func (e *Exchange) miss(format string, args ...any) {
	e.Missing = append(e.Missing, fmt.Sprintf(format, args...))
}

// fill reads the bodies of e.
func (e *Exchange) fill(ctx context.Context, s Store) error {
	if !e.stored() {
		return nil
	}
	ids := e.lead // all messages, if the exchange belongs to no conversation
	if e.branch != "" {
		all, err := readBranches(ctx, s.Q, e.Conversation, e.count)
		if err != nil {
			return err
		}
		ids = e.ids(all, true)
	}
	want := slices.Concat(ids, []string{e.parameters, e.answer})
	slices.Sort(want)
	want = slices.DeleteFunc(slices.Compact(want), func(id string) bool { return id == "" })
	bodies, size := make(map[string]string, len(want)), 0
	if err := readContents(ctx, s.Q, want, 0, func(id, body string) {
		if size += len(body); size <= maxRequest {
			bodies[id] = body
		}
	}); err != nil {
		return err
	}
	if size > maxRequest {
		e.miss("parts of the request: it is over %d MiB", maxRequest>>20)
	}
	if len(bodies) == 0 && e.TextsDropped != "" {
		e.branch, e.parameters = "", ""
		e.stored()
		return nil
	}
	e.Messages = make([]string, len(ids))
	why := cmp.Or(e.WhyDropped(), "too large to be stored, or older than the retention")
	var gone []string
	for i, id := range ids {
		if e.Messages[i] = bodies[id]; e.Messages[i] == "" {
			gone = append(gone, fmt.Sprint(i))
		}
	}
	if n := len(gone); n > 0 {
		e.miss("%d of %d messages (%s): %s", n, len(ids), list(gone), why)
	}
	if e.Parameters = bodies[e.parameters]; e.Parameters == "" {
		e.miss("parameters: %s", why)
	}
	if e.messagesAt = min(e.messagesAt, len(e.Parameters)); e.answer != "" {
		switch e.Answer = bodies[e.answer]; {
		case e.Answer == "" && e.TextsDropped == "":
			e.Answer = "(expired)"
		case e.Answer == "" && len(gone) == 0:
			e.Answer = "(stored only as far as the history of the next request contains it: " + why + ")"
		}
	}
	if e.degraded {
		e.miss("the request as sent; its sender (%s) marked these messages as incomplete", cmp.Or(e.sdk, e.Service))
	}
	s.Withhold.apply(e)
	return nil
}

// list joins the first 10 elements of all.
func list(all []string) string {
	const shown = 10
	if len(all) > shown {
		return strings.Join(all[:shown], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

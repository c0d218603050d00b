package show

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Exchange is one stored call.
type Exchange struct {
	ID             string    `json:"exchange_id"`
	Conversation   string    `json:"conversation_id"`
	StartedAt      time.Time `json:"started_at"`
	Service        string    `json:"service"`
	ServiceVersion string    `json:"service_version,omitempty"`
	Environment    string    `json:"environment,omitempty"`
	Agent          string    `json:"agent,omitempty"`
	Stage          string    `json:"stage,omitempty"`
	Server         string    `json:"server,omitempty"`
	Path           string    `json:"path,omitempty"`
	Dialect        string    `json:"dialect"`
	Variant        string    `json:"variant"`
	Model          string    `json:"model,omitempty"`
	Status         int       `json:"status"`
	Seconds        float64   `json:"duration"`
	Cause          string    `json:"cause,omitempty"`
	CauseKnown     string    `json:"cause_known,omitempty"`
	RootCause      string    `json:"root_cause,omitempty"`
	ErrorType      string    `json:"error_type,omitempty"`
	ErrorText      string    `json:"error_text,omitempty"`
	InputTokens    int       `json:"input_tokens"`
	OutputTokens   int       `json:"output_tokens"`
	FinishReason   string    `json:"finish_reason,omitempty"`
	Retry          int       `json:"retry,omitempty"`
	Capture        string    `json:"capture"`

	Findings []Finding `json:"findings"`          // that this exchange was the first to show
	Earlier  []Finding `json:"earlier_findings"`  // of the conversation, from before; its history may still have them
	Missing  []string  `json:"missing,omitempty"` // what is not stored, and why, as far as that is known

	Parameters string   `json:"-"` // the request without its messages; "" when it is not stored
	Messages   []string `json:"-"` // as sent, but for what is redacted; "" for one that is not stored
	Answer     string   `json:"-"` // "" when it is not stored, and of a call that failed
	messagesAt int

	storedAt                   time.Time // stream time, as that of findings
	count                      int       // of messages
	branch, parameters, answer string
	lead                       []string
	marked                     map[uint32]string
}

// Body is the request as it was sent, but for what is redacted and for space between messages; ok is false when parts of
// it are missing.
func (e *Exchange) Body() (body string, ok bool) {
	if e.Parameters == "" || len(e.Missing) > 0 {
		return "", false
	}
	if e.branch == "" {
		return e.Parameters, true
	}
	return e.Parameters[:e.messagesAt] + strings.Join(e.Messages, ",") + e.Parameters[e.messagesAt:], true
}

// exchangeColumns are those that newExchange reads.
const exchangeColumns = `exchange_id, conversation_id, started_at, stored_at, service, service_version, environment, agent, stage, server, path, dialect, variant,
	model, status, duration, cause, cause_known, root_cause, error_type, error_text, input_tokens, output_tokens, finish_reason, retry, capture,
	messages, branch, lead, marked, parameters, messages_at, answer`

func newExchange(r row) *Exchange {
	e := &Exchange{
		ID: r.text("exchange_id"), Conversation: r.text("conversation_id"), StartedAt: r.time("started_at"), storedAt: r.time("stored_at"), Service: r.text("service"),
		ServiceVersion: r.text("service_version"), Environment: r.text("environment"), Agent: r.text("agent"), Stage: r.text("stage"),
		Server: r.text("server"), Path: r.text("path"), Dialect: r.text("dialect"), Variant: r.text("variant"), Model: r.text("model"),
		Status: r.number("status"), Seconds: r.seconds("duration"), Cause: r.text("cause"), CauseKnown: r.text("cause_known"),
		RootCause: r.text("root_cause"), ErrorType: r.text("error_type"), ErrorText: r.text("error_text"), InputTokens: r.number("input_tokens"),
		OutputTokens: r.number("output_tokens"), FinishReason: r.text("finish_reason"), Retry: r.number("retry"), Capture: r.text("capture"),
		Findings: []Finding{}, Earlier: []Finding{},
		count: r.number("messages"), branch: r.text("branch"), lead: r.texts("lead"), parameters: r.text("parameters"),
		messagesAt: r.number("messages_at"), answer: r.text("answer"),
	}
	e.marked, _ = r["marked"].(map[uint32]string)
	return e
}

// ids are the contents of the messages in order, those with cache marks as they were sent, or else without them; "" for
// one that is not known.
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

// stored reports whether anything of the request was stored, and says why not.
func (e *Exchange) stored() bool {
	switch {
	case e.branch != "" || e.parameters != "":
		return true
	case e.Capture == "none":
		e.miss("the request and its answer: they were captured as none, without bodies")
	case e.Capture == "cut":
		e.miss("the request and its answer: the body was cut by the hook, because it is over 16 MiB")
	case e.Dialect == "other" || e.Dialect == "":
		e.miss("the request and its answer: they are in no dialect that llmtap reads")
	default:
		e.miss("the request and its answer: their bodies were not stored (content of this service is not kept, the event was degraded, or it was read from before bodies were kept)")
	}
	return false
}

func (e *Exchange) miss(format string, args ...any) {
	e.Missing = append(e.Missing, fmt.Sprintf(format, args...))
}

// fill reads what the bodies of e hold.
func (e *Exchange) fill(ctx context.Context, q Querier) error {
	if !e.stored() {
		return nil
	}
	var ids []string
	if e.branch != "" {
		all, err := history(ctx, q, e.Conversation, e.count)
		if err != nil {
			return err
		}
		ids = e.ids(all, true)
	}
	want := slices.Concat(ids, []string{e.parameters, e.answer})
	slices.Sort(want)
	want = slices.DeleteFunc(slices.Compact(want), func(id string) bool { return id == "" })
	bodies, size := make(map[string]string, len(want)), 0
	if err := contents(ctx, q, want, 0, func(id, body string) {
		if size += len(body); size <= maxRequest {
			bodies[id] = body
		}
	}); err != nil {
		return err
	}
	if size > maxRequest {
		e.miss("parts of the request: it is larger than %d MB", maxRequest>>20)
	}
	e.Messages = make([]string, len(ids))
	var gone []string
	for i, id := range ids {
		if e.Messages[i] = bodies[id]; e.Messages[i] == "" {
			gone = append(gone, fmt.Sprint(i))
		}
	}
	if n := len(gone); n > 0 {
		e.miss("%d of %d messages (%s): they were too large to be stored, or are older than what is kept", n, len(ids), some(gone))
	}
	e.part(bodies, e.parameters, &e.Parameters, "the parameters")
	if e.messagesAt = min(e.messagesAt, len(e.Parameters)); e.answer != "" {
		if e.Answer = bodies[e.answer]; e.Answer == "" {
			e.Answer = "(not kept any more)"
		}
	}
	return nil
}

func (e *Exchange) part(bodies map[string]string, id string, to *string, what string) {
	if *to = bodies[id]; *to == "" {
		e.miss("%s: too large to be stored, or older than what is kept", what)
	}
}

// some is the first of all.
func some(all []string) string {
	const shown = 10
	if len(all) > shown {
		return strings.Join(all[:shown], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

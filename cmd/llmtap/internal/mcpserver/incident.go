package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/ruledoc"
	"github.com/llmtap/llmtap/dashboards/differs"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const incidentDoc = `The failures of a stage with one cause: number of calls, whether it is over, versions with and without it, whose change, the fix, proof (example call, index of the broken message, what the provider answered), conversations that are hit. Arguments: those that whats_wrong names. why may also be a rule or a signal, for calls that were accepted in spite of a violation.`

// An incidentInput selects failures.
type incidentInput struct {
	Filter

	Why string `json:"why,omitempty" jsonschema:"a cause, root cause, rule or signal, such as tool_calls_dropped_on_save; without it, all failures"`
}

// An incident is the answer of the tool incident.
type incident struct {
	Subject       string     `json:"subject"`
	Why           string     `json:"why,omitempty"`
	Meaning       string     `json:"meaning,omitempty"`
	Fix           string     `json:"fix,omitempty"`
	Finding       bool       `json:"finding,omitempty"` // the calls have a finding, and need not have failed
	Since         string     `json:"since"`
	Calls         int        `json:"calls"`
	Hit           int        `json:"hit"`
	Guessed       int64      `json:"guessed_calls,omitempty"` // of Hit, calls of which the cause is a guess
	First         string     `json:"first,omitempty"`
	Last          string     `json:"last,omitempty"`
	CallsSince    int        `json:"calls_since_last"`
	State         string     `json:"state,omitempty"`
	FirstVersion  string     `json:"first_version,omitempty"`
	LastClean     string     `json:"last_clean_version,omitempty"`
	FirstExchange string     `json:"first_exchange_id,omitempty"`
	Change        string     `json:"whose_change,omitempty"`
	Changes       []string   `json:"changes_before,omitempty"`
	Differs       string     `json:"what_differs,omitempty"`
	Versions      []versions `json:"versions,omitempty"`
	Proofs        []proof    `json:"proofs,omitempty"`
	Conversations int        `json:"conversations"`
	Recovered     int        `json:"recovered_conversations"`
	Hits          []string   `json:"conversation_ids,omitempty"`
	Instead       []string   `json:"instead,omitempty"` // causes of the failures there are, if none matches
	Missing       []string   `json:"missing,omitempty"`
	Next          *step      `json:"next,omitempty"` // of calls that miss the prompt cache: what it costs
}

// A versions row is the calls of one version.
type versions struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Hit     int    `json:"hit"`
	Calls   int    `json:"calls"`
	Began   string `json:"first_call"`
}

// A proof is an example of one wording of the error.
type proof struct {
	Number       int    `json:"calls"`
	Exchange     string `json:"exchange_id"`
	Conversation string `json:"conversation_id,omitempty"`
	At           string `json:"started_at"`
	Provider     string `json:"provider,omitempty"`
	Model        string `json:"model,omitempty"`
	Status       int    `json:"status"`
	Error        string `json:"error,omitempty"`
	Rule         string `json:"rule_id,omitempty"`
	Message      *int   `json:"message_index,omitempty"` // 0-based; nil if the finding concerns the whole request
	ToolCall     string `json:"tool_call_id,omitempty"`
	Summary      string `json:"summary,omitempty"`
	RootCause    string `json:"root_cause,omitempty"`
	Confidence   string `json:"confidence,omitempty"`
	Evidence     string `json:"evidence,omitempty"`
	Fix          string `json:"fix,omitempty"`
	Next         step   `json:"next"`
}

const (
	maxHits       = 5
	maxChanges    = 5
	changesBefore = 6 * time.Hour // the first failure
)

func (t *tools) incident(ctx context.Context, in incidentInput) (answer, error) {
	now := time.Now().UTC()
	earlier, err := in.earlier(now)
	if err != nil {
		return answer{}, fmt.Errorf("since: %w", err)
	}
	out := &incident{Subject: subject(in.Service, in.Stage), Why: in.Why, Since: stamp(timeOf(in.since(), now))}
	if in.Why != "" {
		cache := promptcache.Words(in.Why, "", "") != in.Why // a reason that is documented with the prompt cache
		entries, err := ruledoc.Select([]string{in.Why}, "")
		if err != nil && !cache {
			return answer{}, fmt.Errorf("why: %w", err)
		}
		_, out.Meaning, out.Fix = wording.Problem(in.Why, false)
		if err == nil {
			out.Meaning, out.Fix = cmp.Or(out.Meaning, entries[0].Title), cmp.Or(out.Fix, entries[0].Fix)
		}
		if cache || in.Why == signals.CacheBroken {
			cost := in.query("cache")
			out.Next = &cost
		}
	}
	err = t.withStore(ctx, func(q rows.Querier, _ func() string) error {
		if err := out.read(ctx, q, now, in, earlier, []string{"why", in.Why}); err != nil {
			return err
		}
		if out.Hit > 0 || in.Why == "" || out.Calls == 0 {
			return nil
		}
		found := *out
		if err := found.read(ctx, q, now, in, earlier, []string{"rules", in.Why}); err == nil && found.Hit > 0 {
			found.Finding = true
			*out = found
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	return short(out.text(), out)
}

// read fills x. hit are the parameters of the statements that select the calls.
func (x *incident) read(ctx context.Context, q rows.Querier, now time.Time, in incidentInput, earlier string, hit []string) error {
	var (
		totals   = &read{name: "incident_totals", values: in.values(hit...)}
		byRow    = &read{name: "incident_versions", values: in.values(hit...)}
		examples = &read{name: "incident_examples", values: in.values(hit...)}
		affected = &read{name: "incident_conversations", values: in.values(hit...)}
		common   = &read{name: differs.Query, values: in.values(hit...)}
		first    = &read{name: "first_occurrence", values: in.values("since", earlier)}
		ledger   = &read{name: "whose_change", values: in.values("since", earlier)}
		over     = &read{name: "is_it_over", values: in.values()}
		causes   = &read{name: "causes", values: in.values()}
		helpful  = []*read{byRow, examples, affected, common, first, ledger, over, causes}
	)
	if err := run(ctx, q, now, append([]*read{totals}, helpful...)...); err != nil {
		return err
	}
	x.Missing, x.Instead = missing(helpful), nil
	for _, r := range totals.rows {
		x.Calls, x.Hit, x.CallsSince = r.Int("calls"), r.Int("hits"), r.Int("calls_since")
		x.Guessed = r.Int64("guessed")
		x.First, x.Last = stamp(r.Time("first_hit")), stamp(r.Time("last_hit"))
	}
	if x.Hit == 0 {
		x.First, x.Last, x.CallsSince = "", "", 0
		for _, r := range causes.rows[:min(len(causes.rows), maxFailures)] {
			why := alerts.Share{Cause: r.Text("cause"), RootCause: r.Text("root_cause")}
			what := stored.Guessed(wording.Kind(&alerts.Evidence{}, why)+" "+why.ID(), guessedOf(r), r.Int64("failed_calls"))
			x.Instead = append(x.Instead, fmt.Sprintf("%s: %s (%d)", subject(r.Text("service"), r.Text("stage")), what, r.Int("failed_calls")))
		}
		return nil
	}
	for _, r := range byRow.rows {
		x.Versions = append(x.Versions, versions{r.Text("service"), line(r.Text("version"), maxVersion), r.Int("hits"), r.Int("calls"), stamp(r.Time("began"))})
	}
	for _, r := range examples.rows {
		x.Proofs = append(x.Proofs, newProof(r))
	}
	x.Differs = line(differs.Of(common.rows).Sentence, maxLine)
	for _, r := range affected.rows {
		x.Conversations, x.Recovered = r.Int("conversations"), r.Int("all_recovered")
		if id := r.Text("conversation_id"); id != "" && len(x.Hits) < maxHits {
			x.Hits = append(x.Hits, line(id, maxLine))
		}
	}
	o := originOf(first.rows, ledger.rows, in.Service, in.Stage, in.Why)
	x.FirstVersion, x.LastClean, x.FirstExchange, x.Change = line(o.Version, maxVersion), line(o.LastClean, maxVersion), o.Exchange, o.text()
	if i := slices.IndexFunc(over.rows, func(r rows.Row) bool { return r.Text("cause") == x.cause(causes.rows) }); i >= 0 {
		x.State = over.rows[i].Text("verdict")
	}
	x.readChanges(ctx, q, now, in, o.At)
	return nil
}

// cause returns the cause of the failures with a cause or root cause.
func (x *incident) cause(causes []rows.Row) string {
	for _, r := range causes {
		if x.Why == r.Text("cause") || x.Why == r.Text("root_cause") {
			return r.Text("cause")
		}
	}
	return x.Why
}

// readChanges reads what changed in the stage shortly before its first failure.
func (x *incident) readChanges(ctx context.Context, q rows.Querier, now time.Time, in incidentInput, first time.Time) {
	if first.IsZero() {
		return
	}
	r := &read{name: "what_changed", values: in.values("since", first.Add(-changesBefore).Format(time.RFC3339Nano), "until", first.Add(time.Second).Format(time.RFC3339Nano))}
	if run(ctx, q, now, r) != nil { // the changes are a help only
		return
	}
	for _, row := range r.rows[:min(len(r.rows), maxChanges)] {
		x.Changes = append(x.Changes, stamp(row.Time("changed_at"))+" "+line(row.Text("change"), maxLine))
	}
}

func newProof(r rows.Row) proof {
	p := proof{
		Number: r.Int("n"), Exchange: r.Text("exchange_id"), Conversation: line(r.Text("conversation_id"), maxLine), At: stamp(r.Time("started_at")),
		Provider: r.Text("provider"), Model: line(r.Text("model"), maxVersion), Status: r.Int("status"), Error: line(wording.ProviderMessage(r.Text("error_text")), maxLine),
		Rule: r.Text("rule_id"), ToolCall: line(r.Text("tool_call_id"), maxVersion), Summary: line(r.Text("summary"), maxLine), RootCause: r.Text("root_cause"),
		Confidence: r.Text("confidence"), Evidence: line(r.Text("evidence"), maxLine), Fix: line(r.Text("fix"), 2*maxLine),
		Next: step{"show", showInput{ID: r.Text("exchange_id")}},
	}
	if i := r.Int("message_index"); p.Rule != "" && i >= 0 {
		p.Message = &i
	}
	return p
}

func (x *incident) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", x.Subject)
	if x.Why != "" {
		fmt.Fprintf(&b, ", %s: %s", x.Why, stored.Guessed(x.Meaning, x.Guessed, int64(x.Hit)))
	}
	b.WriteString("\n")
	what := "failed"
	if x.Why != "" {
		what = "failed for this reason"
	}
	if x.Finding {
		what = "have this finding; no call failed with it as its cause"
	}
	fmt.Fprintf(&b, "%s of %s (%s) since %s %s.\n", quantity.Count(x.Hit), quantity.Plural(x.Calls, "call"), quantity.Share(x.Hit, x.Calls), x.Since, what)
	if x.Hit == 0 {
		if len(x.Instead) > 0 {
			fmt.Fprintf(&b, "There are other failures: %s.\n", strings.Join(x.Instead, "; "))
		} else {
			b.WriteString("Choose an earlier since, or see whats_wrong without a service and a stage. The names are exact: query failures_by_stage lists them.\n")
		}
		return b.String()
	}
	field(&b, "first and last", fmt.Sprintf("%s, %s; %s since then", x.First, x.Last, quantity.Plural(x.CallsSince, "call")))
	field(&b, "state", x.State)
	field(&b, "whose change", x.Change)
	field(&b, "first call", x.FirstExchange)
	for _, c := range x.Changes {
		field(&b, "changed before", c)
	}
	field(&b, "what differs", x.Differs)
	for _, v := range x.Versions {
		field(&b, "version "+v.Version, fmt.Sprintf("%s of %s (%s), first call %s", quantity.Count(v.Hit), quantity.Plural(v.Calls, "call"), v.Service, v.Began))
	}
	field(&b, "fix", x.Fix)
	if x.Next != nil {
		field(&b, "next", x.Next.String())
	}
	for i := range x.Proofs {
		p := &x.Proofs[i]
		fmt.Fprintf(&b, "\nProof %d: %s like call %s, %s, %s %s, status %d\n", i+1, quantity.Plural(p.Number, "call"), p.Exchange, p.At, p.Provider, p.Model, p.Status)
		field(&b, "provider's error", p.Error)
		if p.Rule != "" {
			place := "the request as a whole"
			if p.Message != nil {
				place = fmt.Sprintf("message %d", *p.Message)
			}
			field(&b, "defect", fmt.Sprintf("%s in %s: %s", p.Rule, place, p.Summary))
		}
		if p.RootCause != "" {
			field(&b, "root cause", fmt.Sprintf("%s (%s): %s", p.RootCause, p.Confidence, p.Evidence))
		}
		field(&b, "tool call", p.ToolCall)
		if p.Fix != x.Fix {
			field(&b, "fix", p.Fix)
		}
		field(&b, "conversation", p.Conversation)
		field(&b, "next", p.Next.String())
	}
	fmt.Fprintf(&b, "\n%s hit, %d of them recovered: %s\n", quantity.Plural(x.Conversations, "conversation"), x.Recovered, strings.Join(x.Hits, ", "))
	for _, m := range x.Missing {
		fmt.Fprintf(&b, "\nNot read: %s\n", m)
	}
	return b.String()
}

package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const whatsWrongDoc = `Start here. What is wrong now: which stages of which services fail, how often, since when, why (cause and root cause), since which version, whether it goes on, and the alerts. Each failure names the arguments for incident, which has the proof and the fix.`

const (
	maxFailures = 8
	maxOthers   = 4 // alerts, and rows of each signal

	manyRows = "5000" // of queries whose rows are looked up
)

// wrong is the answer of whats_wrong.
type wrong struct {
	Since    string    `json:"since"`
	Calls    int       `json:"calls"`
	Failed   int       `json:"failed_calls"`
	Failures []failure `json:"failures"` // the most frequent ones
	Others   int       `json:"other_failures,omitempty"`
	Alerts   []alert   `json:"alerts,omitempty"`
	Signals  []signal  `json:"signals,omitempty"`
	Missing  []string  `json:"missing,omitempty"` // what could not be read
	Newest   string    `json:"newest_call,omitempty"`
}

// A failure is the calls of a stage that failed with one cause.
type failure struct {
	Service      string `json:"service"`
	Stage        string `json:"stage"`
	Cause        string `json:"cause"`
	RootCause    string `json:"root_cause,omitempty"`
	Meaning      string `json:"meaning"`
	Failed       int    `json:"failed_calls"`
	Guessed      int64  `json:"guessed_calls,omitempty"` // of Failed, calls of which Meaning is a guess
	Calls        int    `json:"calls_of_stage"`
	Versions     string `json:"versions,omitempty"`
	Change       string `json:"whose_change,omitempty"`
	First        string `json:"first_seen"`
	Last         string `json:"last_seen"`
	State        string `json:"state,omitempty"`
	Burst        string `json:"burst,omitempty"`
	Conversation string `json:"conversation_id,omitempty"`
	Next         step   `json:"next"`
}

// An alert is an alert of the time range, or one that fires.
type alert struct {
	State    string `json:"state"`
	Severity string `json:"severity"`
	Name     string `json:"name"`
	Subject  string `json:"subject"`
	Started  string `json:"started"`
	Summary  string `json:"summary"`
	Exchange string `json:"exchange_id,omitempty"`
}

// A signal is something that several calls show, though they did not fail.
type signal struct {
	Signal  string `json:"signal"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Next    step   `json:"next"`
}

// A queryInput is the input of the tool query.
type queryInput struct {
	Name       string         `json:"name,omitempty" jsonschema:"name of the query; without it, the queries are listed"`
	Parameters map[string]any `json:"parameters,omitempty" jsonschema:"parameters of the query: strings or numbers; a list for a filter with several values"`
	Offset     int            `json:"offset,omitempty" jsonschema:"number of rows to skip, to continue an answer"`
}

func (t *tools) whatsWrong(ctx context.Context, in Filter) (answer, error) {
	now := time.Now().UTC()
	earlier, err := in.earlier(now)
	if err != nil {
		return answer{}, fmt.Errorf("since: %w", err)
	}
	var (
		causes  = &read{name: "causes", values: in.values()}
		stages  = &read{name: "failures_by_stage", values: in.values("limit", manyRows)}
		first   = &read{name: "first_occurrence", values: in.values("since", earlier, "limit", manyRows)}
		ledger  = &read{name: "whose_change", values: in.values("since", earlier, "limit", manyRows)}
		over    = &read{name: "is_it_over", values: in.values("limit", manyRows)}
		bursts  = &read{name: "bursts", values: in.values()}
		alerts  = &read{name: "alerts", values: in.values()}
		masked  = &read{name: "masked_failures", values: in.values()}
		latent  = &read{name: "latent_violations", values: in.values()}
		cache   = &read{name: "cache", values: in.values(), prices: t.Prices.Bound()}
		newest  = &read{name: "newest_call"}
		helpful = []*read{stages, first, ledger, over, bursts, alerts, masked, latent, cache, newest}
	)
	err = t.withStore(ctx, func(q rows.Querier, _ func() string) error {
		return run(ctx, q, now, append([]*read{causes}, helpful...)...)
	})
	if err != nil {
		return answer{}, err
	}
	out := &wrong{Since: stamp(timeOf(in.since(), now)), Failures: []failure{}, Missing: missing(helpful)}
	calls := map[string]int{} // by subject
	for _, r := range stages.rows {
		out.Calls, out.Failed = out.Calls+r.Int("calls"), out.Failed+r.Int("failed_calls")
		calls[r.Text("service")+"\x00"+r.Text("stage")] += r.Int("calls")
	}
	for _, r := range newest.rows {
		out.Newest = stamp(r.Time("newest"))
	}
	for _, r := range causes.rows {
		if len(out.Failures) == maxFailures {
			out.Others = len(causes.rows) - maxFailures
			break
		}
		out.Failures = append(out.Failures, newFailure(r, in, calls, first.rows, ledger.rows, over.rows, bursts.rows))
	}
	out.addAlerts(alerts.rows)
	out.addSignals(in, masked.rows, latent.rows, cache.rows)
	return short(out.text(), out)
}

func timeOf(text string, now time.Time) time.Time {
	t, err := queries.ParseTime(text, now)
	if err != nil {
		return now
	}
	return t
}

func newFailure(r rows.Row, in Filter, calls map[string]int, first, ledger, over, bursts []rows.Row) failure {
	service, stage, cause, root := r.Text("service"), r.Text("stage"), r.Text("cause"), r.Text("root_cause")
	why := (alerts.Share{Cause: cause, RootCause: root}).ID()
	_, meaning, _ := wording.Problem(why, false)
	next := incidentInput{Filter: in, Why: why}
	next.Service, next.Stage = service, stage
	f := failure{
		Service: service, Stage: stage, Cause: cause, RootCause: root, Meaning: cmp.Or(meaning, strings.ReplaceAll(why, "_", " ")), Failed: r.Int("failed_calls"),
		Calls: calls[service+"\x00"+stage], Versions: named(r.Texts("versions"), 5), Change: originOf(first, ledger, service, stage, why).text(),
		First: stamp(r.Time("first_seen")), Last: stamp(r.Time("last_seen")), Conversation: line(r.Text("last_conversation_id"), maxLine), Next: step{"incident", next},
	}
	f.Guessed = guessedOf(r)
	f.Meaning = stored.Guessed(f.Meaning, f.Guessed, r.Int64("failed_calls"))
	same := func(r rows.Row) bool {
		return r.Text("service") == service && r.Text("stage") == stage && r.Text("cause") == cause
	}
	if i := slices.IndexFunc(over, same); i >= 0 {
		f.State = over[i].Text("verdict")
	}
	if i := slices.IndexFunc(bursts, same); i >= 0 {
		b := bursts[i]
		f.Burst = fmt.Sprintf("%s to %s, peak %v%% of the calls in a window", stamp(b.Time("started")), stamp(b.Time("ended")), b.Float("peak_percent"))
	}
	return f
}

// guessedOf returns the calls of a row of causes of which the cause is a guess; 0 if the root cause is known.
func guessedOf(r rows.Row) int64 {
	if s := (alerts.Share{Cause: r.Text("cause"), RootCause: r.Text("root_cause")}); s.ID() != s.Cause {
		return 0
	}
	known, _ := r["known"].(map[string]uint64)
	return int64(known["guessed"])
}

func (w *wrong) addAlerts(found []rows.Row) {
	for _, r := range found {
		if r.Text("severity") == "none" || len(w.Alerts) == maxOthers {
			continue
		}
		labels, _ := r["labels"].(map[string]string)
		about := subject(labels["service"], labels["stage"])
		if len(labels) > 0 && labels["service"]+labels["stage"] == "" {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				if name != "severity" {
					all = append(all, name+"="+labels[name])
				}
			}
			about = cmp.Or(line(strings.Join(all, " "), maxLine), about)
		}
		w.Alerts = append(w.Alerts, alert{
			State: r.Text("state"), Severity: r.Text("severity"), Name: r.Text("name"), Subject: about, Started: stamp(r.Time("started_at")),
			Summary: line(r.Text("summary"), maxLine), Exchange: r.Text("exchange_id"),
		})
	}
}

// query returns the stored query with this name for the calls of f.
func (f Filter) query(name string) step {
	parameters := map[string]any{}
	for k, v := range f.values() {
		parameters[k] = v[0]
	}
	return step{"query", queryInput{Name: name, Parameters: parameters}}
}

func (w *wrong) addSignals(in Filter, masked, latent, cache []rows.Row) {
	next := func(name string, r rows.Row) step {
		f := in
		f.Service, f.Stage = r.Text("service"), r.Text("stage")
		return f.query(name)
	}
	for _, r := range masked[:min(len(masked), maxOthers)] {
		text := quantity.Plural(r.Int("failures"), "run") + " reported as ok although the last call failed"
		if r.Text("signal") != "masked_failure" {
			text = quantity.Plural(r.Int("conversations"), "conversation") + " ended on a failed call"
		}
		w.Signals = append(w.Signals, signal{r.Text("signal"), subject(r.Text("service"), r.Text("stage")), text + " (" + r.Text("cause") + ")", next("masked_failures", r)})
	}
	for _, r := range latent[:min(len(latent), maxOthers)] {
		w.Signals = append(w.Signals, signal{"latent_violation", subject(r.Text("service"), r.Text("stage")), fmt.Sprintf(
			"%s accepted %s that %s would reject (%s)", line(r.Text("provider"), maxVersion), quantity.Plural(r.Int("violations"), "violation"), r.Text("target"), r.Text("rule_id"),
		), next("latent_violations", r)})
	}
	cache = slices.DeleteFunc(cache, func(r rows.Row) bool { // also what hardly costs anything
		return !promptcache.Avoidable(r.Text("reason")) || 10*r.Int("missed") < r.Int("reusable")
	})
	for _, r := range cache[:min(len(cache), maxOthers)] {
		v := promptcache.Verdict{Reason: r.Text("reason"), Element: r.Text("element"), Detail: r.Text("detail")}
		text := fmt.Sprintf("%s of %s misses the prompt cache since %s: %s; %s in %s", cmp.Or(line(r.Text("service_version"), maxVersion), "no version"),
			line(r.Text("model"), maxVersion), stamp(r.Time("first_call")), promptcache.Words(v.Reason, v.Element, v.Detail),
			quantity.Plural(r.Int("missed"), "token"), quantity.Plural(r.Int("calls_with_it"), "call"))
		if usd := r.Float("missed_usd"); usd > 0 {
			text += fmt.Sprintf(", $%.2f more", usd)
		}
		w.Signals = append(w.Signals, signal{signals.CacheBroken, subject(r.Text("service"), r.Text("stage")), text + ". Fix: " + strings.TrimSuffix(v.Fix(), "."), next("cache", r)})
	}
}

func (w *wrong) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Since %s: %s of %s failed.", w.Since, quantity.Count(w.Failed), quantity.Plural(w.Calls, "call"))
	if w.Calls == 0 && w.Newest != "" {
		fmt.Fprintf(&b, " The newest stored call began at %s: choose an earlier since.", w.Newest)
	} else if w.Newest == "" {
		b.WriteString(" No calls are stored.")
	}
	b.WriteString("\n")
	for i := range w.Failures {
		f := &w.Failures[i]
		fmt.Fprintf(&b, "\n%d. %s: %s of %s failed (%s): %s\n", i+1, subject(f.Service, f.Stage), quantity.Count(f.Failed), quantity.Plural(f.Calls, "call"), quantity.Share(f.Failed, f.Calls), f.Meaning)
		field(&b, "cause", strings.TrimSuffix(f.Cause+", root cause "+f.RootCause, ", root cause "))
		field(&b, "whose change", f.Change)
		field(&b, "versions that fail", f.Versions)
		field(&b, "when", fmt.Sprintf("%s to %s; %s", f.First, f.Last, f.State))
		field(&b, "burst", f.Burst)
		field(&b, "newest conversation", f.Conversation)
		field(&b, "next", f.Next.String())
	}
	if w.Others > 0 {
		fmt.Fprintf(&b, "\nand %s more: query {\"name\":\"causes\"}\n", quantity.Plural(w.Others, "failure"))
	}
	if len(w.Alerts) > 0 {
		b.WriteString("\nAlerts, firing ones first:\n")
	}
	for i := range w.Alerts {
		a := &w.Alerts[i]
		fmt.Fprintf(&b, "- %s: %s %s, %s, since %s: %s; example: show %s\n", a.State, a.Severity, a.Name, a.Subject, a.Started, a.Summary, cmp.Or(a.Exchange, "(none)"))
	}
	if len(w.Signals) > 0 {
		b.WriteString("\nUnnoticed:\n")
	}
	for i := range w.Signals {
		s := &w.Signals[i]
		fmt.Fprintf(&b, "- %s: %s: %s; next: %s\n", s.Signal, s.Subject, s.Text, s.Next)
	}
	for _, m := range w.Missing {
		fmt.Fprintf(&b, "\nNot read: %s\n", m)
	}
	return b.String()
}

// field writes a named text, unless it is empty.
func field(b *strings.Builder, name, text string) {
	if text != "" {
		fmt.Fprintf(b, "   %s: %s\n", name, text)
	}
}

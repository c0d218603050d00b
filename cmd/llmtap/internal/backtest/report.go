package backtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	maxAlerts        = 1000 // maximum alerts in a report; a rule that fires more often is wrong
	maxLabel         = 60   // maximum runes of a label or an id
	maxText          = 400  // maximum runes of a text
	progressInterval = 5 * time.Second
)

// A Report is the result of a backtest.
type Report struct {
	From       time.Time         `json:"from"`
	Until      time.Time         `json:"until"`
	Calls      uint64            `json:"calls"`
	Failed     uint64            `json:"failed"`
	Alerts     []Alert           `json:"alerts"`
	More       int               `json:"more,omitempty"` // number of alerts beyond maxAlerts
	NeverFired []string          `json:"never_fired"`
	NotTested  map[string]string `json:"not_tested"`           // reasons by rule
	UsualSince time.Time         `json:"usual_since,omitzero"` // first call from which it was learned what is usual; zero if there is none before From

	Options engine.BacktestOptions `json:"-"`
	Limit   time.Duration          `json:"-"` // time after which the rest is skipped; 0: none
	Cut     bool                   `json:"-"` // the rest was skipped, so Until is earlier

	style *terminal.Style
}

// An Alert is one alert that would have fired.
type Alert struct {
	Alert        string            `json:"alert"`
	Labels       map[string]string `json:"labels"`
	State        string            `json:"state"`
	StartsAt     time.Time         `json:"starts_at"`
	EndsAt       *time.Time        `json:"ends_at"` // null if the alert still fires at the end
	Seconds      float64           `json:"seconds"`
	Peak         float64           `json:"peak"`
	Failed       uint64            `json:"failed"` // failed calls, or findings, at the peak
	Calls        uint64            `json:"calls"`
	LastFailed   *time.Time        `json:"last_failed"` // null if unknown
	CallsSince   uint64            `json:"calls_since"` // calls after LastFailed
	Shares       []Share           `json:"shares"`
	FirstVersion string            `json:"first_version"`
	LastClean    string            `json:"last_clean"`
	Example      *Example          `json:"example"`
	Summary      string            `json:"summary"`
	Fix          string            `json:"fix"`
	HiddenBy     string            `json:"hidden_by,omitempty"` // alert that hid this one when it ended, or at the end

	findings     bool     // Failed counts findings
	explanations []string // one line per share
}

// A Share is the number of failures with one cause and root cause.
type Share struct {
	Cause     string `json:"cause"`
	RootCause string `json:"root_cause"`
	Failed    uint64 `json:"failed"`
}

// An Example is a failed exchange.
type Example struct {
	Exchange     string `json:"exchange_id"`
	Conversation string `json:"conversation_id"`
	Status       int    `json:"status"`
	Error        string `json:"error"`
	Rule         string `json:"rule"`
	Summary      string `json:"summary"`
}

// New returns a report without alerts. NotTested contains the rules of cfg that cannot be tested. New fails if a rule file
// is invalid.
func New(cfg engine.Config, from, until time.Time, style *terminal.Style) (*Report, error) {
	r := &Report{style: style, From: from.UTC(), Until: until.UTC(), Alerts: []Alert{}, NeverFired: []string{}, NotTested: map[string]string{}}
	list, err := cfg.Rules().Load()
	if err != nil {
		return nil, err
	}
	for _, rule := range list {
		if rule.Health {
			r.NotTested[rule.Name] = "the health of llmtap is not stored"
			continue
		}
		for _, m := range rule.Metrics() {
			switch {
			case slices.Contains(notStored, m):
				r.NotTested[rule.Name] = m + " is not stored"
			case m == rules.MetricLimitExhausted:
				r.NotTested[rule.Name] = "what remains of rate limits is not stored"
			case slices.Contains(money, m):
				r.NotTested[rule.Name] = "what was spent in the month before is not read"
			case m == rules.MetricExpected && len(cfg.Services) == 0:
				r.NotTested[rule.Name] = "alerts.services is empty"
			}
		}
		if r.NotTested[rule.Name] == "" && !slices.Contains(r.NeverFired, rule.Name) {
			r.NeverFired = append(r.NeverFired, rule.Name)
		}
	}
	return r, nil
}

// money lists the metrics of budgets.
var money = []string{rules.MetricBudget, rules.MetricBudgetSpent, rules.MetricBudgetForecast, rules.MetricBudgetUnpriced, rules.MetricBudgetSince}

// Run evaluates the rules of cfg over the rows of store. It reads rows from cfg.Retention before From, because rules look
// back, and the weeks before, for what is usual.
func (r *Report) Run(ctx context.Context, cfg engine.Config, prices price.Table, store rows.Querier, progress io.Writer) error {
	start := time.Now()
	tallies := r.count(readTallies(ctx, store, prices, r.From.Add(-cfg.Retention), r.Until), start, progress)
	next := start.Add(progressInterval)
	r.Options.History = func(ctx context.Context, services []string, from, until time.Time) ([]engine.Past, error) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressInterval)
			fmt.Fprintf(progress, "learning what is usual: at %s\n", r.style.Time(from))
		}
		if r.tooLong(start) { // nothing is replayed either
			return nil, nil
		}
		list, err := past.Read(ctx, store, "", prices, services, from, until)
		for i := range list {
			if at := list[i].At; r.UsualSince.IsZero() || at.Before(r.UsualSince) {
				r.UsualSince = at
			}
		}
		return list, err
	}
	err := engine.Backtest(ctx, cfg, r.Options, tallies, func(a alerts.Alert) error {
		if a.State == alerts.Resolved && a.EndsAt.Before(r.From) || r.NotTested[a.Name] != "" {
			return nil
		}
		r.NeverFired = slices.DeleteFunc(r.NeverFired, func(name string) bool { return name == a.Name })
		if len(r.Alerts) == maxAlerts {
			r.More++
			return nil
		}
		if err := addExample(ctx, store, &a); err != nil {
			return err
		}
		r.Alerts = append(r.Alerts, newAlert(&a))
		return nil
	})
	slices.SortStableFunc(r.Alerts, func(a, b Alert) int { return a.StartsAt.Compare(b.StartsAt) })
	return err
}

// count yields tallies, sums up their calls and failures, and writes progress.
func (r *Report) count(tallies iter.Seq2[*analyzer.Tally, error], start time.Time, progress io.Writer) iter.Seq2[*analyzer.Tally, error] {
	return func(yield func(*analyzer.Tally, error) bool) {
		next := start.Add(progressInterval)
		for t, err := range tallies {
			if err == nil && t.Second >= r.From.Unix() {
				for _, n := range t.Counts {
					switch n.Metric {
					case analyzer.MetricCalls:
						r.Calls += n.N
					case analyzer.MetricFailed:
						r.Failed += n.N
					}
				}
				if now := time.Now(); now.After(next) {
					next = now.Add(progressInterval)
					fmt.Fprintf(progress, "at %s of %s\n", r.style.Time(time.Unix(t.Second, 0)), r.style.Time(r.Until))
				}
			}
			if err == nil && r.tooLong(start) {
				r.Until, r.Cut = time.Unix(t.Second, 0).UTC(), true
				return
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (r *Report) tooLong(start time.Time) bool { return r.Limit > 0 && time.Since(start) > r.Limit }

func newAlert(a *alerts.Alert) Alert {
	ev := &a.Evidence
	out := Alert{
		Alert: a.Name, Labels: a.Labels, State: string(a.State), StartsAt: a.StartsAt, Peak: a.Peak, Failed: ev.Failed, Calls: ev.Calls,
		Shares: []Share{}, Seconds: a.UpdatedAt.Sub(a.StartsAt).Seconds(), Summary: wording.Summary(a), Fix: a.Annotations["runbook"],
	}
	if a.State == alerts.Resolved {
		out.EndsAt = &a.EndsAt
	}
	if out.findings = len(ev.Rules) > 0; !ev.LastFailed.IsZero() {
		out.LastFailed, out.CallsSince = &ev.LastFailed, ev.CallsSince
	}
	out.FirstVersion, out.LastClean = ev.Regression()
	for _, s := range ev.Shares {
		out.Shares = append(out.Shares, Share{s.Cause, s.RootCause, s.Failed})
		line := fmt.Sprintf("%d of %d: %s", s.Failed, ev.Failed, wording.Failure(s))
		if s.ID() != "" {
			line += " (" + s.ID() + ")"
		}
		out.explanations = append(out.explanations, line)
		if s.Fix != "" && len(out.Shares) == 1 {
			out.Fix = s.Fix
		}
	}
	if a.Inhibitor != nil {
		out.HiddenBy = a.Inhibitor.Name
	}
	if x := ev.Example; x != nil {
		out.Example = &Example{x.Exchange, x.Conversation, x.Status, x.ErrorText, x.Rule, x.Summary}
	}
	return out
}

// Write writes the report as text or json.
func (r *Report) Write(w io.Writer, format string) error {
	if format == command.JSON {
		return command.WriteJSON(w, r)
	}
	var b strings.Builder
	for i := range r.Alerts {
		r.Alerts[i].write(&b, r.style)
	}
	b.WriteString(r.style.Wrap("", fmt.Sprintf("%s between %s and %s; %s, %d failed", quantity.Plural(len(r.Alerts)+r.More, "alert"),
		r.style.Time(r.From), r.style.Time(r.Until), quantity.Plural(r.Calls, "call"), r.Failed), "  ") + "\n")
	if r.Calls == 0 {
		b.WriteString("no calls are stored for this period\n")
	}
	if !r.UsualSince.IsZero() {
		fmt.Fprintf(&b, "what is usual was learned from the %s before\n", quantity.Span(r.From.Sub(r.UsualSince)))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "only the first %d are shown\n", len(r.Alerts))
	}
	if len(r.NeverFired) > 0 {
		b.WriteString(r.style.Wrap("never fired: ", strings.Join(r.NeverFired, ", "), "  ") + "\n")
	}
	r.writeReasons(&b, "not tested: ", r.NotTested)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeReasons writes the rules of each reason in a line.
func (r *Report) writeReasons(b *strings.Builder, head string, reasons map[string]string) {
	byReason := map[string][]string{}
	for rule, reason := range reasons {
		byReason[reason] = append(byReason[reason], rule)
	}
	var lines []string
	for reason, rules := range byReason {
		slices.Sort(rules)
		lines = append(lines, r.style.Wrap(head, strings.Join(rules, ", ")+": "+reason, "  ")+"\n")
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
}

func (a *Alert) write(b *strings.Builder, style *terminal.Style) {
	head := a.Alert
	if s := a.Labels["severity"]; s != "" {
		head += " (" + s + ")"
	}
	label := func(s string) string { return terminal.Clip(s, maxLabel) }
	text := func(s string) string { return terminal.Clip(s, maxText) }
	line := func(format string, args ...any) {
		b.WriteString(style.Wrap("  ", fmt.Sprintf(format, args...), "    ") + "\n")
	}
	fmt.Fprintf(b, "%s  %s\n", style.Time(a.StartsAt), style.Bold(head))
	duration := quantity.Span(time.Duration(a.Seconds) * time.Second)
	if a.EndsAt == nil {
		line("still firing at the end, after %s", duration)
	} else {
		line("until %s, for %s", style.Time(*a.EndsAt), duration)
	}
	var labels []string
	for k, v := range a.Labels {
		if k != "severity" {
			labels = append(labels, k+"="+label(v))
		}
	}
	slices.Sort(labels)
	if len(labels) > 0 {
		line("%s", strings.Join(labels, " "))
	}
	if a.HiddenBy != "" {
		line("hidden by %s: nobody would have been notified", label(a.HiddenBy))
	}
	switch {
	case a.Failed > 0 && a.findings:
		line("peak: %s in %s, value %.4g", quantity.Plural(a.Failed, "finding"), quantity.Plural(a.Calls, "call"), a.Peak)
	case a.Failed > 0:
		line("peak: %s of %s failed (%s), value %.4g", quantity.Count(a.Failed), quantity.Plural(a.Calls, "call"), quantity.Share(a.Failed, a.Calls), a.Peak)
	default:
		line("peak: value %.4g: %s", a.Peak, text(a.Summary))
	}
	if a.LastFailed != nil {
		since := "no calls since"
		switch {
		case a.CallsSince > 0 && a.findings:
			since = quantity.Plural(a.CallsSince, "call") + " since"
		case a.CallsSince > 0:
			since = "none since in " + quantity.Plural(a.CallsSince, "call")
		}
		what := "failure"
		if a.findings {
			what = "finding"
		}
		line("last %s %s, %s", what, style.Time(*a.LastFailed), since)
	}
	for _, s := range a.explanations {
		line("%s", text(s))
	}
	switch {
	case a.FirstVersion != "" && a.LastClean != "":
		line("first version %s, last clean version %s", label(a.FirstVersion), label(a.LastClean))
	case a.FirstVersion != "":
		line("first version %s, no clean version known", label(a.FirstVersion))
	}
	if x := a.Example; x != nil {
		line("example: call %s of conversation %s: %s", label(x.Exchange), label(x.Conversation), text(cmp.Or(x.Summary, x.Error)))
	}
	if a.Fix != "" {
		line("fix: %s", text(a.Fix))
	}
	b.WriteByte('\n')
}

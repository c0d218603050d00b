package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var alertsBacktestCommand = &command.Command{
	Name:  "alerts backtest",
	Args:  "[FILE]...",
	Short: "Replay alert rules over stored data",
	Long: `It evaluates the rules over the calls and findings stored in ClickHouse, with the
engine that evaluates them live, and reports when each rule would have fired, for
how long, and on what evidence. It notifies nobody. Without files it uses the rule
files of the configuration, else the shipped rules.

Not replayed: rules on the health of llmtap and on lost events, which are not
stored. A cause counts as new if no stored call failed for it before.

` + query.Times,
	Examples: `  llmtap alerts backtest
  llmtap alerts backtest --since 24h my-rules.yaml
  llmtap alerts backtest --since 2026-11-20 --until 2026-11-21T09:30:00Z
  llmtap alerts backtest --format json my-rules.yaml | jq '.alerts[].peak'`,
	Run: runAlertsBacktest,
}

// maxBacktested bounds the alerts that are kept; a rule that fires more often is wrong.
const maxBacktested = 1000

const (
	maxLabel = 60  // runes of a label or an id
	maxField = 400 // runes of a text
)

// A backtestReport is what --format json prints.
type backtestReport struct {
	From       time.Time         `json:"from"`
	Until      time.Time         `json:"until"`
	Calls      uint64            `json:"calls"`
	Failed     uint64            `json:"failed"`
	Alerts     []backtestedAlert `json:"alerts"`
	More       int               `json:"more,omitempty"` // alerts beyond those
	NeverFired []string          `json:"never_fired"`
	NotTested  map[string]string `json:"not_tested"` // rule: why
}

type backtestedAlert struct {
	Alert        string             `json:"alert"`
	Labels       map[string]string  `json:"labels"`
	State        string             `json:"state"`
	StartsAt     time.Time          `json:"starts_at"`
	EndsAt       *time.Time         `json:"ends_at"` // null when it fires to the end
	Seconds      float64            `json:"seconds"`
	Peak         float64            `json:"peak"`
	Failed       uint64             `json:"failed"` // at the peak
	Calls        uint64             `json:"calls"`
	Shares       []backtestedShare  `json:"shares"`
	FirstVersion string             `json:"first_version"`
	LastClean    string             `json:"last_clean"`
	Example      *backtestedExample `json:"example"`
	Summary      string             `json:"summary"`
	Fix          string             `json:"fix"`

	words []string // of Shares
}

type backtestedShare struct {
	Cause     string `json:"cause"`
	RootCause string `json:"root_cause"`
	Failed    uint64 `json:"failed"`
}

type backtestedExample struct {
	Exchange     string `json:"exchange_id"`
	Conversation string `json:"conversation_id"`
	Status       int    `json:"status"`
	Error        string `json:"error"`
	Rule         string `json:"rule"`
	Summary      string `json:"summary"`
}

func runAlertsBacktest(ctx context.Context, c *command.Call) error {
	flags := serverFlags(c)
	since := c.Parameters.String("since", "7d", "start `time`")
	until := c.Parameters.String("until", "", "end `time`; empty: now")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	now := time.Now()
	from, err := queries.ParseTime(*since, now)
	to := now
	if err == nil && *until != "" {
		to, err = queries.ParseTime(*until, now)
	}
	if err == nil && !from.Before(to) {
		err = errors.New("--since is not before --until")
	}
	if err != nil {
		return command.BadInput(err)
	}
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	cfg := servers.Alerts
	cfg.TSDBDir = "" // that of the config is of the machine it is for
	if len(c.Args) > 0 {
		cfg.RuleFiles = c.Args
	}
	r := &backtestReport{From: from.UTC(), Until: to.UTC(), Alerts: []backtestedAlert{}, NeverFired: []string{}, NotTested: map[string]string{}}
	if err := r.cover(cfg); err != nil {
		return command.BadInput(err)
	}
	sink, err := openClickHouse(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	if err := r.run(ctx, cfg, sink, c.Stderr); err != nil {
		return err
	}
	slices.SortStableFunc(r.Alerts, func(a, b backtestedAlert) int { return a.StartsAt.Compare(b.StartsAt) })
	return r.write(c.Stdout, *format)
}

// cover notes which rules are tested, and why others are not.
func (r *backtestReport) cover(cfg alerts.Config) error {
	list, err := cfg.Rules().Load()
	if err != nil {
		return err
	}
	for _, rule := range list {
		if rule.Health {
			r.NotTested[rule.Name] = "it is about llmtap itself, of which nothing is stored"
		}
	}
	for _, rule := range list {
		if rule.Health {
			continue
		}
		for _, m := range rule.Metrics() {
			switch {
			case slices.Contains(backtest.NotStored, m):
				r.NotTested[rule.Name] = "of " + m + " nothing is stored"
			case m == rules.MetricExpected && len(cfg.Services) == 0:
				r.NotTested[rule.Name] = "the configuration names no services that it is for"
			}
		}
		if r.NotTested[rule.Name] == "" && !slices.Contains(r.NeverFired, rule.Name) {
			r.NeverFired = append(r.NeverFired, rule.Name)
		}
	}
	return nil
}

// run evaluates the rules. Series live for cfg.Retention, and some rules look back, so it begins that much before From.
func (r *backtestReport) run(ctx context.Context, cfg alerts.Config, store backtest.Store, progress io.Writer) error {
	tallies := r.watch(backtest.Tallies(ctx, store, r.From.Add(-cfg.Retention), r.Until), progress)
	return alerts.Backtest(ctx, cfg, tallies, func(a alerts.Alert) error {
		if a.State == alerts.Resolved && a.EndsAt.Before(r.From) || r.NotTested[a.Name] != "" {
			return nil
		}
		r.NeverFired = slices.DeleteFunc(r.NeverFired, func(name string) bool { return name == a.Name })
		if len(r.Alerts) == maxBacktested {
			r.More++
			return nil
		}
		if err := backtest.Explain(ctx, store, &a); err != nil {
			return err
		}
		r.Alerts = append(r.Alerts, backtested(&a))
		return nil
	})
}

// watch counts calls, and says now and then how far it is.
func (r *backtestReport) watch(tallies iter.Seq2[*analyzer.Tally, error], progress io.Writer) iter.Seq2[*analyzer.Tally, error] {
	return func(yield func(*analyzer.Tally, error) bool) {
		next := time.Now().Add(5 * time.Second)
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
					next = now.Add(5 * time.Second)
					fmt.Fprintf(progress, "at %s of %s\n", time.Unix(t.Second, 0).UTC().Format(time.DateTime), r.Until.Format(time.DateTime))
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func backtested(a *alerts.Alert) backtestedAlert {
	ev := &a.Evidence
	out := backtestedAlert{
		Alert: a.Name, Labels: a.Labels, State: string(a.State), StartsAt: a.StartsAt, Peak: a.Peak, Failed: ev.Failed, Calls: ev.Calls,
		Shares: []backtestedShare{}, Seconds: a.UpdatedAt.Sub(a.StartsAt).Seconds(), Summary: a.Annotations["summary"], Fix: a.Annotations["runbook"],
	}
	if a.State == alerts.Resolved {
		out.EndsAt = &a.EndsAt
	}
	out.FirstVersion, out.LastClean = ev.Regression()
	for _, s := range ev.Shares {
		out.Shares = append(out.Shares, backtestedShare{s.Cause, s.RootCause, s.Failed})
		line := fmt.Sprintf("%d of %d: %s", s.Failed, ev.Failed, s.Description())
		if s.ID() != "" {
			line += " (" + s.ID() + ")"
		}
		out.words = append(out.words, line)
		if s.Fix != "" && len(out.Shares) == 1 {
			out.Fix = s.Fix
		}
	}
	if x := ev.Example; x != nil {
		out.Example = &backtestedExample{x.Exchange, x.Conversation, x.Status, x.ErrorText, x.Rule, x.Summary}
	}
	return out
}

func (r *backtestReport) write(w io.Writer, format string) error {
	if format == "json" {
		return command.WriteJSON(w, r)
	}
	var b strings.Builder
	for i := range r.Alerts {
		r.Alerts[i].write(&b)
	}
	fmt.Fprintf(&b, "%s between %s and %s UTC, over %d calls of which %d failed\n", terminal.Plural(len(r.Alerts)+r.More, "alert"),
		r.From.Format(time.DateTime), r.Until.Format(time.DateTime), r.Calls, r.Failed)
	if r.Calls == 0 {
		b.WriteString("no calls are stored of that time\n")
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "only the first %d are shown\n", len(r.Alerts))
	}
	if len(r.NeverFired) > 0 {
		fmt.Fprintf(&b, "never fired: %s\n", strings.Join(r.NeverFired, ", "))
	}
	byReason := map[string][]string{}
	for rule, why := range r.NotTested {
		byReason[why] = append(byReason[why], rule)
	}
	var lines []string
	for why, rules := range byReason {
		slices.Sort(rules)
		lines = append(lines, fmt.Sprintf("not tested: %s: %s\n", strings.Join(rules, ", "), why))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *backtestedAlert) write(b *strings.Builder) {
	head := a.Alert
	if s := a.Labels["severity"]; s != "" {
		head += " (" + s + ")"
	}
	line := func(format string, args ...any) { fmt.Fprintf(b, "  "+format+"\n", args...) }
	fmt.Fprintf(b, "%s  %s\n", a.StartsAt.UTC().Format(time.DateTime), head)
	if a.EndsAt == nil {
		line("fires to the end, for %v", time.Duration(a.Seconds)*time.Second)
	} else {
		line("until %s, for %v", a.EndsAt.UTC().Format(time.DateTime), time.Duration(a.Seconds)*time.Second)
	}
	var labels []string
	for k, v := range a.Labels {
		if k != "severity" {
			labels = append(labels, k+"="+terminal.Clip(v, maxLabel))
		}
	}
	slices.Sort(labels)
	if len(labels) > 0 {
		line("%s", strings.Join(labels, " "))
	}
	if a.Failed > 0 {
		line("at worst %d of %d calls failed, value %.4g", a.Failed, a.Calls, a.Peak)
	} else {
		line("at worst value %.4g: %s", a.Peak, terminal.Clip(a.Summary, maxField))
	}
	for _, words := range a.words {
		line("%s", terminal.Clip(words, maxField))
	}
	if a.FirstVersion != "" {
		clean := "no clean version known"
		if a.LastClean != "" {
			clean = "last clean " + a.LastClean
		}
		line("first in %s, %s", terminal.Clip(a.FirstVersion, maxLabel), terminal.Clip(clean, maxLabel))
	}
	if x := a.Example; x != nil {
		line("such as exchange %s of conversation %s: %s", terminal.Clip(x.Exchange, maxLabel), terminal.Clip(x.Conversation, maxLabel), terminal.Clip(cmp.Or(x.Summary, x.Error), maxField))
	}
	if a.Fix != "" {
		line("what to do: %s", terminal.Clip(a.Fix, maxField))
	}
	b.WriteByte('\n')
}

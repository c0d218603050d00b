package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// An Output is where and how Verify reports.
type Output struct {
	Stdout, Stderr io.Writer
	Style          *terminal.Style
	Format         string // text or json
}

// Verify uses the server or cluster of cfg as llmtap does and reports each step. It returns false if a step failed.
func Verify(ctx context.Context, cfg clickhouse.VerifyConfig, out Output) (ok bool, err error) {
	for _, name := range queries.Names() {
		sql, params, err := queries.Sample(name, time.Now())
		if err != nil {
			return false, err
		}
		cfg.Queries = append(cfg.Queries, clickhouse.VerifyQuery{Name: name, SQL: sql, Params: params})
	}
	progress := terminal.NewProgress(out.Stderr)
	report := verifyReport{Output: out}
	cfg.Started = func(step string) { progress.Status("%s …", step) }
	cfg.Done = func(s clickhouse.VerifyStep) {
		progress.Clear()
		if out.Format != "json" {
			report.step(s)
		}
	}
	if out.Format != "json" {
		fmt.Fprintf(out.Stdout, "%s\n\n", config.MaskURL(cfg.DSN))
	}
	begin := time.Now()
	v, err := clickhouse.Verify(ctx, cfg)
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("verify ClickHouse: %w", ctx.Err())
	}
	summary := summarize(v, time.Since(begin))
	if out.Format == "json" {
		err = json.NewEncoder(out.Stdout).Encode(struct {
			*clickhouse.Verification
			Summary []string `json:"summary"`
		}{v, summary})
		return v.Status != clickhouse.VerifyFailed, err
	}
	fmt.Fprintln(out.Stdout)
	for _, line := range summary {
		fmt.Fprintln(out.Stdout, out.Style.Wrap("", line, ""))
	}
	return v.Status != clickhouse.VerifyFailed, nil
}

// A verifyReport writes steps as text.
type verifyReport struct{ Output }

func (r *verifyReport) step(s clickhouse.VerifyStep) {
	const indent = "                           " // of the details
	paint := map[clickhouse.VerifyStatus]func(string) string{
		clickhouse.VerifyOK: r.Style.Green, clickhouse.VerifyWarning: r.Style.Yellow, clickhouse.VerifyFailed: r.Style.Red, clickhouse.VerifySkipped: r.Style.Dim,
	}
	head := paint[s.Status](fmt.Sprintf("%-4s", s.Status)) + fmt.Sprintf("  %-18s %5.1fs  ", s.Name, s.Duration)
	fmt.Fprintln(r.Stdout, r.Style.Wrap(head, terminal.Line(s.Detail), indent))
	if s.Fix != "" {
		fmt.Fprintln(r.Stdout, r.Style.Wrap(indent+r.Style.Bold("fix:")+" ", s.Fix, indent+"     "))
	}
}

// maxSkipped is the maximum number of skipped steps that are listed: more are skipped because an early step failed.
const maxSkipped = 10

// summarize returns the result in sentences.
func summarize(v *clickhouse.Verification, took time.Duration) []string {
	steps := map[clickhouse.VerifyStatus][]string{}
	for _, s := range v.Steps {
		steps[s.Status] = append(steps[s.Status], s.Name)
	}
	failed, skipped := steps[clickhouse.VerifyFailed], steps[clickhouse.VerifySkipped]
	where := "this ClickHouse"
	if v.Version != "" {
		where += " (" + v.Version + ")"
	}
	if v.Shards > 0 {
		where += fmt.Sprintf(", a cluster of %s on %s", quantity.Plural(v.Shards, "shard"), quantity.Plural(v.Replicas, "server"))
	}
	lines := []string{fmt.Sprintf("llmtap works with %s: %s ok, in %.0f s.", where, quantity.Plural(len(steps[clickhouse.VerifyOK]), "step"), took.Seconds())}
	if len(failed) > 0 {
		lines[0] = fmt.Sprintf("llmtap does not work with %s yet: %s failed: %s.", where, quantity.Plural(len(failed), "step"), strings.Join(failed, ", "))
	}
	if warned := steps[clickhouse.VerifyWarning]; len(warned) > 0 {
		lines = append(lines, "Should be changed: "+strings.Join(warned, ", ")+".")
	}
	switch {
	case len(skipped) > maxSkipped:
		lines = append(lines, fmt.Sprintf("Not verified: the other %d steps.", len(skipped)))
	case len(skipped) > 0:
		lines = append(lines, "Not verified: "+strings.Join(skipped, ", ")+".")
	}
	return lines
}

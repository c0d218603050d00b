package schema

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Verify uses the server or cluster of cfg as llmtap does and writes each step to w. It returns false if a step failed.
func Verify(ctx context.Context, w io.Writer, cfg clickhouse.VerifyConfig, style *terminal.Style) (ok bool, err error) {
	for _, name := range queries.Names() {
		sql, params, err := queries.Sample(name, time.Now())
		if err != nil {
			return false, err
		}
		cfg.Queries = append(cfg.Queries, clickhouse.VerifyQuery{Name: name, SQL: sql, Params: params})
	}
	ok, summary := true, "llmtap works with this ClickHouse."
	cfg.Done = func(s clickhouse.VerifyStep) {
		writeStep(w, s, style)
		if s.Status == clickhouse.VerifyFailed {
			ok, summary = false, "llmtap does not work with this ClickHouse yet."
		}
	}
	fmt.Fprintf(w, "%s\n\n", config.MaskURL(cfg.DSN))
	if err := clickhouse.Verify(ctx, cfg); err != nil {
		return false, fmt.Errorf("verify ClickHouse: %w", err)
	}
	fmt.Fprintf(w, "\n%s\n", summary)
	return ok, nil
}

func writeStep(w io.Writer, s clickhouse.VerifyStep, style *terminal.Style) {
	const indent = "                           " // of the details
	paint := map[clickhouse.VerifyStatus]func(string) string{
		clickhouse.VerifyOK: style.Green, clickhouse.VerifyWarning: style.Yellow, clickhouse.VerifyFailed: style.Red,
	}
	head := paint[s.Status](fmt.Sprintf("%-4s", s.Status)) + fmt.Sprintf("  %-18s %5.1fs  ", s.Name, s.Took.Seconds())
	fmt.Fprintln(w, style.Wrap(head, terminal.Line(s.Detail), indent))
	if s.Fix != "" {
		fmt.Fprintln(w, style.Wrap(indent+style.Bold("fix:")+" ", s.Fix, indent+"     "))
	}
}

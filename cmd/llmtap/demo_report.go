package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// demoReport is what --format json prints.
type demoReport struct {
	Exchanges  uint64            `json:"exchanges"`
	Failed     uint64            `json:"failed"`
	Findings   map[string]uint64 `json:"findings"`    // by rule
	Signals    map[string]uint64 `json:"signals"`     // by name
	RootCauses map[string]uint64 `json:"root_causes"` // findings by root cause
	Causes     map[string]uint64 `json:"causes"`      // failed exchanges by cause
	Alerts     []demoAlert       `json:"alerts"`
	ClickHouse map[string]uint64 `json:"clickhouse"` // rows by table, from the final views
	Published  uint64            `json:"published"`  // exchanges the hook had acknowledged
	Lost       uint64            `json:"lost"`       // published or dropped, and not stored
}

type demoAlert struct {
	Alert             string            `json:"alert"`
	Labels            map[string]string `json:"labels"`
	Value             float64           `json:"value"`
	State             string            `json:"state"`
	PublishedToPosted float64           `json:"published_to_posted_ms"` // from the failure that crossed the threshold, or one before it, to Slack

	text string // the message as Slack shows it
}

// fill reads the counts from ClickHouse.
func (r *demoReport) fill(ctx context.Context, sink *clickhouse.Sink) error {
	counts, err := sink.Counts(ctx)
	if err != nil {
		return err
	}
	r.ClickHouse = counts
	r.Findings, r.Signals, r.RootCauses, r.Causes = map[string]uint64{}, map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for _, q := range []struct {
		sql  string
		into func(key string, n uint64)
	}{
		{"SELECT '', count() FROM exchanges_final", func(_ string, n uint64) { r.Exchanges = n }},
		{"SELECT '', count() FROM exchanges_final WHERE failed", func(_ string, n uint64) { r.Failed = n }},
		{"SELECT rule_id, count() FROM findings_final WHERE severity = 'signal' GROUP BY rule_id", func(k string, n uint64) { r.Signals[k] = n }},
		{"SELECT rule_id, count() FROM findings_final WHERE severity != 'signal' GROUP BY rule_id", func(k string, n uint64) { r.Findings[k] = n }},
		{"SELECT root_cause, count() FROM findings_final WHERE root_cause != '' GROUP BY root_cause", func(k string, n uint64) { r.RootCauses[k] = n }},
		{"SELECT cause, count() FROM exchanges_final WHERE failed GROUP BY cause", func(k string, n uint64) { r.Causes[k] = n }},
	} {
		res, err := sink.Query(ctx, q.sql, nil)
		if err != nil {
			return fmt.Errorf("count what was found: %w", err)
		}
		for _, row := range res.Rows {
			n, ok := row[1].(uint64)
			if !ok {
				return fmt.Errorf("count what was found: %T is no count", row[1])
			}
			q.into(fmt.Sprint(row[0]), n)
		}
	}
	return nil
}

func (r *demoReport) write(w io.Writer, format, dataDir string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWhat was found\n  %d LLM calls recorded, %d failed, %d lost\n", r.Exchanges, r.Failed, r.Lost)
	list := func(title string, m map[string]uint64) {
		if len(m) == 0 {
			return
		}
		fmt.Fprintf(&b, "  %s\n", title)
		for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return int(m[b]) - int(m[a]) }) {
			fmt.Fprintf(&b, "    %5d  %s\n", m[k], k)
		}
	}
	list("failed calls by cause", r.Causes)
	list("findings by rule", r.Findings)
	list("signals: what no single request shows", r.Signals)
	list("findings by root cause: what the agent did", r.RootCauses)
	for _, a := range r.Alerts {
		fmt.Fprintf(&b, "\nThe Slack message, posted at most %.1f s after the call that crossed the threshold\n", a.PublishedToPosted/1000)
		for line := range strings.Lines(a.text) {
			fmt.Fprintf(&b, "  │ %s", line)
		}
		fmt.Fprintln(&b)
	}
	if len(r.Alerts) == 0 {
		fmt.Fprintln(&b, "\nNo alert fired.")
	}
	fmt.Fprintln(&b, "\nAsk on, in another terminal")
	for _, name := range []string{"causes", "failures_by_stage", "first_bad_version"} {
		fmt.Fprintf(&b, "  %s query %s --data-dir %s\n", self(), name, dataDir)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// self is how the user called this program: go run leaves a binary in a temporary directory that nobody would type.
func self() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/llmtap"
	}
	return os.Args[0]
}

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A report is the result of a demo, as --format json prints it.
type report struct {
	Exchanges  uint64            `json:"exchanges"`
	Failed     uint64            `json:"failed"`
	Findings   map[string]uint64 `json:"findings"`    // findings by rule
	Signals    map[string]uint64 `json:"signals"`     // signals by name
	RootCauses map[string]uint64 `json:"root_causes"` // findings by root cause
	Causes     map[string]uint64 `json:"causes"`      // failed exchanges by cause
	Alerts     []alert           `json:"alerts"`
	ClickHouse map[string]uint64 `json:"clickhouse"`        // rows by table, from the final views
	Published  uint64            `json:"published"`         // exchanges acknowledged by NATS
	Lost       uint64            `json:"lost"`              // exchanges made but not stored
	Missing    string            `json:"missing,omitempty"` // why nothing is stored
}

type alert struct {
	Alert             string            `json:"alert"`
	Labels            map[string]string `json:"labels"`
	Value             float64           `json:"value"`
	State             string            `json:"state"`
	PublishedToPosted float64           `json:"published_to_posted_ms"` // time between TriggeredAt of the alert and the Slack post

	text string // text of the Slack message
}

// read reads the counts from ClickHouse.
func (r *report) read(ctx context.Context, sink *clickhouse.Sink) (err error) {
	if r.ClickHouse, err = sink.Counts(ctx); err != nil {
		return err
	}
	for _, q := range []struct {
		into *map[string]uint64
		sql  string
	}{
		{&r.Signals, "SELECT rule_id, count() FROM findings FINAL WHERE severity = 'signal' GROUP BY rule_id"},
		{&r.Findings, "SELECT rule_id, count() FROM findings FINAL WHERE severity != 'signal' GROUP BY rule_id"},
		{&r.RootCauses, "SELECT root_cause, count() FROM findings FINAL WHERE root_cause != '' GROUP BY root_cause"},
		{&r.Causes, "SELECT cause, count() FROM exchanges FINAL WHERE failed GROUP BY cause"},
	} {
		if *q.into, err = counts(ctx, sink, q.sql); err != nil {
			return err
		}
	}
	calls, err := counts(ctx, sink, "SELECT if(failed, 'failed', ''), count() FROM exchanges FINAL GROUP BY failed")
	r.Exchanges, r.Failed = calls[""]+calls["failed"], calls["failed"]
	return err
}

// counts returns the result of sql, which selects names and counts.
func counts(ctx context.Context, sink *clickhouse.Sink, sql string) (map[string]uint64, error) {
	res, err := sink.Query(ctx, sql, nil)
	if err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	m := map[string]uint64{}
	for _, row := range res.Rows {
		n, ok := row[1].(uint64)
		if !ok {
			return nil, fmt.Errorf("count rows: %T is not a count", row[1])
		}
		m[fmt.Sprint(row[0])] = n
	}
	return m, nil
}

func (r *report) write(w io.Writer, format, dataDir string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	if r.Missing == "" {
		fmt.Fprintf(&b, "\nResults\n  %d LLM calls recorded, %d failed, %d lost\n", r.Exchanges, r.Failed, r.Lost)
	} else {
		fmt.Fprintf(&b, "\nResults\n  %d LLM calls published\n  %s\n", r.Published, strings.Join(terminal.Wrap(r.Missing, 76, "  "), "\n"))
	}
	list := func(title string, m map[string]uint64) {
		if len(m) == 0 {
			return
		}
		fmt.Fprintf(&b, "  %s\n", title)
		for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return int(m[b]) - int(m[a]) }) {
			fmt.Fprintf(&b, "    %5d  %s\n", m[k], k)
		}
	}
	list("Failed calls by cause", r.Causes)
	list("Findings by rule", r.Findings)
	list("Signals, which no single request shows", r.Signals)
	list("Findings by root cause, the defect of the agent", r.RootCauses)
	for _, a := range r.Alerts {
		fmt.Fprintf(&b, "\nSlack message, %.1f s after the call that crossed the threshold\n", a.PublishedToPosted/1000)
		for line := range strings.Lines(a.text) {
			fmt.Fprintf(&b, "  │ %s", strings.Replace(line, "    llmtap ", "    "+program()+" ", 1)) // runs as printed
		}
		fmt.Fprintln(&b)
	}
	if len(r.Alerts) == 0 {
		fmt.Fprintln(&b, "\nNo alert fired.")
	}
	if r.Missing == "" {
		fmt.Fprintln(&b, "\nNext, in another terminal")
		for _, name := range []string{"causes", "failures_by_stage", "whose_change"} {
			fmt.Fprintf(&b, "  %s query %s --data-dir %s\n", program(), name, dataDir)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// program returns the command that runs this program. For go run, this is not the path of the binary, which is in a
// temporary directory.
func program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/llmtap"
	}
	return os.Args[0]
}

// Package tail follows calls and findings as they are stored.
package tail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	indent       = "          " // of the lines below a call
	pollInterval = time.Second / 2
	maxDelay     = time.Minute    // maximum time between the stream time of a row and its arrival in ClickHouse
	maxDuration  = 24 * time.Hour // maximum duration of a call
	maxRows      = 2000           // rows per poll
)

// Rows are ordered by stored_at, because a call that ended recently may have started long ago.
var exchangesSQL = rows.Statement(`
SELECT exchange_id, stored_at, service, service_version, stage, conversation_id, model, status, failed, error_type, cause, root_cause,
    duration, messages, tool_calls, finish_reason, retry
FROM exchanges FINAL
WHERE stored_at > {from:DateTime64(9, 'UTC')} AND started_at > {begun:DateTime64(9, 'UTC')}
    AND {filter exchanges EXCEPT time}
    AND (failed OR NOT {failed:Bool})
ORDER BY stored_at, exchange_id
LIMIT {limit:UInt32}`)

var findingsSQL = rows.Statement(`
SELECT finding_id, first_seen, service, stage, conversation_id, exchange_id, rule_id, severity, message_index, tool_call_id, summary,
    root_cause, confidence, evidence, fix, rejected_by
FROM findings FINAL
WHERE first_seen > {from:DateTime64(9, 'UTC')}
    AND {filter findings EXCEPT time}
    AND ({rule:String} = '' OR rule_id = {rule:String})
ORDER BY first_seen, finding_id
LIMIT {limit:UInt32}`)

// A Filter selects calls and findings; an empty field selects all.
type Filter struct {
	Values queries.Values // values of the common filters
	Rule   string         // rule of a finding
	Failed bool           // failed calls only
}

// A Tail writes each call and each finding once.
type Tail struct {
	Filter
	JSONL  bool // JSON lines instead of text
	Out    io.Writer
	Stderr io.Writer // receives the state of ClickHouse
	Style  *terminal.Style

	seen map[string]time.Time // stream time by id; a prefix of the id denotes the kind of row
}

// Run writes the rows stored since start until ctx ends. If ClickHouse fails after the first read, it retries and then writes
// the missed rows.
func (t *Tail) Run(ctx context.Context, q rows.Querier, start time.Time) error {
	t.seen = map[string]time.Time{}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	down, first := false, true
	for last := start; ; first = false {
		from, now := last.Add(-maxDelay), time.Now()
		if from.Before(start) {
			from = start
		}
		err := t.poll(ctx, q, from)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err // such as a missing token
		case err != nil && !down:
			down = true
			fmt.Fprintf(t.Stderr, "ClickHouse unreachable, retrying: %v\n", err)
		case err == nil:
			if down {
				down = false
				fmt.Fprintln(t.Stderr, "ClickHouse reachable again")
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// poll writes the new rows since from.
func (t *Tail) poll(ctx context.Context, q rows.Querier, from time.Time) error {
	params := map[string]string{
		"from": rows.TimeParam(from), "begun": rows.TimeParam(from.Add(-maxDuration)), "rule": t.Rule,
		"failed": fmt.Sprint(t.Failed), "limit": fmt.Sprint(maxRows),
	}
	read := func(declared string) ([]rows.Row, error) {
		sql, err := queries.Filter(declared, t.Values, params)
		if err != nil {
			return nil, err
		}
		res, err := q.Query(rows.WithStored(ctx, rows.Stored{Name: declared, Values: t.Values}), sql, params)
		if err != nil {
			return nil, err
		}
		return rows.Of(res), nil
	}
	// Findings are stored before their calls.
	exchanges, err := read(exchangesSQL)
	if err != nil {
		return err
	}
	findings, err := read(findingsSQL)
	if err != nil {
		return err
	}
	for id, at := range t.seen {
		if at.Before(from) {
			delete(t.seen, id)
		}
	}
	byExchange := map[string][]rows.Row{}
	for _, f := range findings {
		id := f.Text("exchange_id")
		byExchange[id] = append(byExchange[id], f)
	}
	for _, e := range exchanges {
		id := e.Text("exchange_id")
		if t.Rule != "" && len(byExchange[id]) == 0 || !t.unseen("x"+id, e.Time("stored_at")) {
			continue
		}
		if err := t.write(e, t.exchangeText); err != nil {
			return err
		}
		if err := t.writeFindings(byExchange[id], t.findingText); err != nil {
			return err
		}
	}
	if t.Failed {
		return nil
	}
	// The remaining findings belong to calls that were written before or ended long ago.
	return t.writeFindings(findings, func(f rows.Row) string {
		return fmt.Sprintf("%s  %-28s conversation %s\n", t.Style.Clock(f.Time("first_seen")), sender(f), terminal.Line(f.Text("conversation_id"))) + t.findingText(f)
	})
}

// unseen reports whether the row with this id is new, and records it.
func (t *Tail) unseen(id string, at time.Time) bool {
	_, ok := t.seen[id]
	if !ok {
		t.seen[id] = at
	}
	return !ok
}

func (t *Tail) writeFindings(findings []rows.Row, text func(rows.Row) string) error {
	for _, f := range findings {
		if !t.unseen("f"+f.Text("finding_id"), f.Time("first_seen")) {
			continue
		}
		if err := t.write(f, text); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tail) write(row rows.Row, text func(rows.Row) string) error {
	if t.JSONL {
		if err := json.NewEncoder(t.Out).Encode(row); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
		return nil
	}
	_, err := io.WriteString(t.Out, text(row))
	return err
}

// sender returns service and stage.
func sender(r rows.Row) string {
	return strings.Trim(terminal.Line(r.Text("service"))+"/"+terminal.Line(r.Text("stage")), "/")
}

func (t *Tail) exchangeText(e rows.Row) string {
	text := func(name string) string { return table.Cell(e[name], t.Style) }
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-28s %-22s %3s %9s  %s", t.Style.Clock(e.Time("stored_at")), sender(e), text("model"), text("status"),
		quantity.Latency(e.Float("duration")), quantity.Plural(e.Int("messages"), "message"))
	if e.Bool("failed") {
		fmt.Fprintf(&b, "  %s %s", t.Style.Red("FAILED"), text("cause"))
		if root := text("root_cause"); root != "" {
			fmt.Fprintf(&b, " (%s)", root)
		}
		if id := text("conversation_id"); id != "" {
			fmt.Fprintf(&b, "  in %s", id)
		}
	} else if calls := text("tool_calls"); calls != "0" {
		fmt.Fprintf(&b, ", calls %s", calls)
	}
	if retry := text("retry"); retry != "0" {
		fmt.Fprintf(&b, "  attempt %s", retry)
	}
	return t.Style.Wrap("", b.String(), indent) + "\n"
}

func (t *Tail) findingText(f rows.Row) string {
	text := func(name string) string { return table.Cell(f[name], t.Style) }
	var b strings.Builder
	line := func(text string) { b.WriteString(t.Style.Wrap(indent, text, indent+"  ") + "\n") }
	line(fmt.Sprintf("%s %s: %s", text("severity"), text("rule_id"), text("summary")))
	if root := text("root_cause"); root != "" {
		line(fmt.Sprintf("root cause %s (%s)", root, text("confidence")))
	}
	if fix := text("fix"); fix != "" {
		line("fix: " + fix)
	}
	return b.String()
}

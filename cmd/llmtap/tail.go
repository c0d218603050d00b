package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var tailCommand = &command.Command{
	Name:  "tail",
	Short: "Follow calls and findings as they are stored",
	Long:  "A call appears about two seconds after it ended. Interrupt with Ctrl-C.",
	Examples: `  llmtap tail
  llmtap tail --service checkout-agent --stage planner
  llmtap tail --failed --since 10m
  llmtap tail --rule orphan_tool_reply --format jsonl | jq .conversation_id`,
	Run: runTail,
}

const (
	tailEvery  = time.Second
	tailBack   = time.Minute // rows may come so long after the stream had their events
	tailRows   = 2000        // of one poll
	tailStarts = 24 * time.Hour
)

// Rows come in the order of stored_at; a call that ended late began long before.
const tailExchanges = `
SELECT exchange_id, stored_at, service, service_version, stage, conversation_id, model, status, failed, error_type, cause, root_cause,
    duration, messages, tool_calls, finish_reason, retry
FROM exchanges_final
WHERE stored_at > {from:DateTime64(9, 'UTC')} AND started_at > {begun:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String}) AND ({stage:String} = '' OR stage = {stage:String})
    AND (failed OR NOT {failed:Bool})
ORDER BY stored_at, exchange_id
LIMIT {limit:UInt32}`

const tailFindings = `
SELECT finding_id, first_seen, service, stage, conversation_id, exchange_id, rule_id, severity, message_index, tool_call_id, summary,
    root_cause, confidence, evidence, fix, rejected_by
FROM findings_final
WHERE first_seen > {from:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String}) AND ({stage:String} = '' OR stage = {stage:String})
    AND ({rule:String} = '' OR rule_id = {rule:String})
ORDER BY first_seen, finding_id
LIMIT {limit:UInt32}`

func runTail(ctx context.Context, c *command.Call) error {
	t := tail{out: c.Stdout, seen: map[string]time.Time{}}
	since := c.Parameters.Duration("since", 0, "begin with the last `duration`, such as 10m")
	c.Parameters.StringVar(&t.service, "service", "", "only calls of this `service`")
	c.Parameters.StringVar(&t.stage, "stage", "", "only calls of this `stage`")
	c.Parameters.BoolVar(&t.failed, "failed", false, "only failed calls")
	c.Parameters.StringVar(&t.rule, "rule", "", "only calls with a finding of this `rule` or signal")
	flags := serverFlags(c)
	format := c.Format(command.Text, command.JSONL)
	if err := c.Parse(); err != nil {
		return err
	}
	if *since < 0 {
		return command.BadInputf("--since %v is negative", *since)
	}
	t.jsonl = *format == command.JSONL
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	sink, err := openClickHouse(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	t.query = sink.Query
	fmt.Fprintln(c.Stderr, "waiting for calls; interrupt with Ctrl-C")
	return t.run(ctx, time.Now().Add(-*since), c.Stderr)
}

// tail follows the store.
type tail struct {
	query                func(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
	service, stage, rule string
	failed, jsonl        bool
	out                  io.Writer

	seen map[string]time.Time // what was shown, and its time
}

// run shows what is stored from start on, until ctx ends. A store that cannot be asked is asked again; what came in
// between is shown then.
func (t *tail) run(ctx context.Context, start time.Time, stderr io.Writer) error {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	down := false
	for last := start; ; {
		now := time.Now()
		err := t.poll(ctx, maxTime(start, last.Add(-tailBack)))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !down:
			down = true
			fmt.Fprintf(stderr, "ClickHouse does not answer, retrying: %v\n", err)
		case err == nil:
			if down {
				down = false
				fmt.Fprintln(stderr, "ClickHouse answers again")
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

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// poll shows what is new since from.
func (t *tail) poll(ctx context.Context, from time.Time) error {
	ask := func(sql string) ([]map[string]any, error) {
		text := func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000000000") }
		res, err := t.query(ctx, sql, map[string]string{
			"from": text(from), "begun": text(from.Add(-tailStarts)), "service": t.service, "stage": t.stage, "rule": t.rule,
			"failed": fmt.Sprint(t.failed), "limit": fmt.Sprint(tailRows),
		})
		if err != nil {
			return nil, err
		}
		rows := make([]map[string]any, len(res.Rows))
		for i, row := range res.Rows {
			rows[i] = make(map[string]any, len(row))
			for j, v := range row {
				rows[i][res.Columns[j].Name] = v
			}
		}
		return rows, nil
	}
	// Findings are stored before their calls.
	exchanges, err := ask(tailExchanges)
	if err != nil {
		return err
	}
	findings, err := ask(tailFindings)
	if err != nil {
		return err
	}
	for id, at := range t.seen {
		if at.Before(from) {
			delete(t.seen, id)
		}
	}
	of := map[string][]map[string]any{}
	for _, f := range findings {
		id := f["exchange_id"].(string)
		of[id] = append(of[id], f)
	}
	for _, e := range exchanges {
		id := e["exchange_id"].(string)
		if t.rule != "" && len(of[id]) == 0 || !t.fresh("x"+id, e["stored_at"]) {
			continue
		}
		if err := t.print(e, false); err != nil {
			return err
		}
		for _, f := range of[id] {
			if err := t.printFinding(f, true); err != nil {
				return err
			}
		}
	}
	// What concerns a call that was shown before, or that ended long ago.
	for _, f := range findings {
		if t.failed {
			break
		}
		if err := t.printFinding(f, false); err != nil {
			return err
		}
	}
	return nil
}

// fresh reports whether what has this id was not shown yet.
func (t *tail) fresh(id string, at any) bool {
	if _, ok := t.seen[id]; ok {
		return false
	}
	t.seen[id], _ = at.(time.Time)
	return true
}

func (t *tail) printFinding(f map[string]any, below bool) error {
	if !t.fresh("f"+f["finding_id"].(string), f["first_seen"]) {
		return nil
	}
	return t.print(f, below)
}

// print shows a call, or a finding: below its call, or by itself.
func (t *tail) print(row map[string]any, below bool) error {
	if t.jsonl {
		b, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("encode row: %w", err)
		}
		_, err = fmt.Fprintf(t.out, "%s\n", b)
		return err
	}
	text := func(name string) string { return table.Cell(row[name]) }
	who := strings.Trim(text("service")+"/"+text("stage"), "/")
	var b strings.Builder
	if _, ok := row["finding_id"]; !ok {
		at, _ := row["stored_at"].(time.Time)
		seconds, _ := row["duration"].(float64)
		fmt.Fprintf(&b, "%s  %-28s %-22s %3s %6.1fs  %s messages", at.Local().Format(time.TimeOnly), who, text("model"), text("status"), seconds, text("messages"))
		if failed, _ := row["failed"].(bool); failed {
			fmt.Fprintf(&b, "  FAILED %s", text("cause"))
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
		b.WriteByte('\n')
	} else {
		if !below {
			at, _ := row["first_seen"].(time.Time)
			fmt.Fprintf(&b, "%s  %-28s conversation %s\n", at.Local().Format(time.TimeOnly), who, text("conversation_id"))
		}
		fmt.Fprintf(&b, "          %s %s: %s\n", text("severity"), text("rule_id"), text("summary"))
		if root := text("root_cause"); root != "" {
			fmt.Fprintf(&b, "          root cause %s (%s)\n", root, text("confidence"))
		}
		if fix := text("fix"); fix != "" {
			fmt.Fprintf(&b, "          fix: %s\n", fix)
		}
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

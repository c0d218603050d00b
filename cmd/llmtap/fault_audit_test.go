package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// rowsByID are the rows of a run by id, reduced to the values that are compared.
type rowsByID struct {
	exchanges, findings, toolCalls map[string]string
	contents                       map[string]string // by the hash in the id, whose rest depends on the start of the process
	ledger                         map[string]string // of a single partition; nil if there are several
}

// An audit compares what a collector stored with the acknowledged exchanges, and with the result of an undisturbed analyzer on
// the same stream.
type audit struct {
	acked, stored int
	missing       int // acknowledged exchanges that are not stored
	duplicates    int // rows of any table beyond the first of an id
	findings      int
	toolCalls     int
	ledgerEntries int
	framed        int // events in frames
	differences   []string
	tallied       uint64 // calls in the tallies, as an alert engine counts them
	tallies       map[string]uint64

	expired bool // tallies have expired, and are not compared
	damaged bool // the stream has lost messages, so that rows and tallies may differ from those of what is left
	excused int  // acknowledged exchanges that are not stored because the stream has lost messages of them
}

func (a *audit) passed() bool {
	return a.missing == 0 && a.duplicates == 0 && (a.damaged || len(a.differences) == 0 && (a.expired || a.tallied == uint64(a.stored)))
}

// auditStore audits s until it passes, for at most two minutes.
func auditStore(t *testing.T, natsURL string, s *store, acked []string) *audit {
	t.Helper()
	return auditDamaged(t, natsURL, s, acked, nil, false)
}

// auditDamaged is auditStore for a stream that has lost messages of some exchanges, nil: it has lost none, or whose tallies have
// expired.
func auditDamaged(t *testing.T, natsURL string, s *store, acked []string, lost map[string]bool, expired bool) *audit {
	t.Helper()
	js := streams(t, natsURL)
	var a *audit
	var err error
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		a, err = compare(t.Context(), js, s, acked, lost)
		if err == nil {
			a.expired = expired
		}
		if err == nil && a.passed() {
			return a
		}
		if time.Now().After(deadline) {
			must.Do(t, err)
			return a
		}
	}
}

func compare(ctx context.Context, js natsjs.JetStream, s *store, acked []string, lostByDisk map[string]bool) (*audit, error) {
	got, duplicates, err := storedRows(ctx, s)
	if err != nil {
		return nil, err
	}
	a := &audit{acked: len(acked), stored: len(got.exchanges), duplicates: duplicates, findings: len(got.findings), toolCalls: len(got.toolCalls), damaged: lostByDisk != nil}
	for _, id := range acked {
		if _, ok := got.exchanges[id]; ok {
			continue
		}
		if lostByDisk[id] {
			a.excused++
		} else {
			a.missing++
		}
	}
	if a.tallies, err = countTallies(ctx, js); err != nil {
		return nil, err
	}
	a.tallied = a.tallies[analyzer.MetricCalls] + a.tallies[analyzer.MetricRetries] + a.tallies[analyzer.MetricCancelled]
	want, framed, err := undisturbed(ctx, js)
	if err != nil {
		return nil, err
	}
	a.framed = framed
	if got.ledger, err = storedLedger(ctx, js); err != nil {
		return nil, err
	}
	a.ledgerEntries = len(got.ledger)
	if got.ledger == nil {
		want.ledger = nil
	}
	a.differences = slices.Concat(diff("ledger entry", want.ledger, got.ledger), diff("exchange", want.exchanges, got.exchanges), diff("finding", want.findings, got.findings), diff("tool call", want.toolCalls, got.toolCalls), diff("content", want.contents, got.contents))
	if len(got.contents) == 0 {
		a.differences = append(a.differences, "no contents are stored")
	}
	lost, err := s.query(ctx, dangling)
	if err != nil {
		return nil, err
	}
	for _, r := range lost.Rows {
		a.differences = append(a.differences, fmt.Sprintf("exchange %a refers to a branch or to contents that are not stored", r[0]))
	}
	return a, nil
}

// dangling selects the exchanges whose messages are not all stored.
const dangling = `WITH (SELECT groupUniqArray(id) FROM messages) AS ids, (SELECT groupUniqArray(branch) FROM history) AS branches
	SELECT exchange_id FROM exchanges_final
	WHERE branch != '' AND NOT has(branches, branch) OR NOT hasAll(ids, arrayFilter(id -> id != '', arrayConcat(lead, [parameters, answer], mapValues(marked))))
	UNION ALL SELECT exchange_id FROM history_final WHERE message_id NOT IN (SELECT id FROM messages) LIMIT 20`

// diff describes the differences of rows.
func diff(what string, want, got map[string]string) (all []string) {
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[id]; !ok {
			all = append(all, fmt.Sprintf("%s %s is not stored: %s", what, id, want[id]))
		} else if g != want[id] {
			all = append(all, fmt.Sprintf("%s %s is %s, not %s", what, id, g, want[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[id]; !ok {
			all = append(all, fmt.Sprintf("unexpected %s %s: %s", what, id, got[id]))
		}
	}
	return all
}

// storedRows reads the final views. duplicates is the number of rows beyond the first of an id.
func storedRows(ctx context.Context, s *store) (rows rowsByID, duplicates int, err error) {
	read := func(sql string) map[string]string {
		m := map[string]string{}
		for last := ""; err == nil; {
			// In pages, because results are limited in size.
			res, qerr := s.query(ctx, fmt.Sprintf("SELECT * FROM (%s) WHERE id > '%s' ORDER BY id LIMIT 50000", sql, last))
			if qerr != nil {
				err = qerr
				break
			}
			for _, r := range res.Rows {
				last = r[0].(string)
				m[last] = r[1].(string)
				duplicates += int(r[2].(uint64)) - 1
			}
			if len(res.Rows) < 50000 {
				break
			}
		}
		return m
	}
	rows.exchanges = read("SELECT exchange_id AS id, any(concat(status, ' ', cause, ' ', root_cause, ' ', findings)), count() FROM exchanges_final GROUP BY id")
	rows.findings = read("SELECT finding_id AS id, any(concat(rule_id, ' ', root_cause, ' ', severity)), count() FROM findings_final GROUP BY id")
	rows.toolCalls = read("SELECT id, any(concat(tool_name, ' ', state)), count() FROM tool_calls_final GROUP BY id")
	rows.contents = read("SELECT substring(id, 9) AS id, any(kind), toUInt64(1) FROM messages_final GROUP BY id") // it may be stored in several places
	return rows, duplicates, err
}

// undisturbed returns the rows of an analyzer that reads the whole stream, and how many events are in frames.
func undisturbed(ctx context.Context, js natsjs.JetStream) (rows rowsByID, framed int, err error) {
	rows = rowsByID{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
	cfg := analyzer.Default()
	cfg.Epoch = 1
	an := analyzer.New(cfg, rules.InOrder, prometheus.NewRegistry())
	an.KeepContents(func(string) bool { return true }, nil)
	var out analyzer.Output
	collect := func() { // rows of an id are in the order of their versions
		for _, e := range out.Exchanges {
			rows.exchanges[e.ID] = fmt.Sprint(e.Status, " ", e.Cause, " ", e.RootCause, " ", e.Findings)
		}
		for _, f := range out.Findings {
			rows.findings[f.ID] = fmt.Sprint(f.Rule, " ", f.RootCause, " ", f.Severity)
		}
		for _, c := range out.ToolCalls {
			rows.toolCalls[c.ID] = fmt.Sprint(c.Name, " ", c.State)
		}
		for _, c := range out.Contents {
			rows.contents[c.ID[8:]] = c.Kind
		}
		out.Reset()
	}
	var clock jetstream.Clock
	err = replayStream(ctx, js, event.StreamEvents, func(m natsjs.Msg, meta *natsjs.MsgMetadata) error {
		events, err := event.DecodeAll(m.Subject(), event.Header(m.Headers()), m.Data())
		if err != nil {
			return err
		}
		if event.IsFrame(m.Subject()) {
			framed += len(events)
		}
		at, _ := clock.At(meta.Timestamp.UTC())
		for i, ev := range events {
			an.Process(ev, analyzer.Position{Seq: meta.Sequence.Stream, Index: i, Time: at.Add(time.Duration(i))}, true, &out)
			collect()
		}
		return nil
	})
	an.Advance(time.Now(), true, &out)
	collect()
	changed, _ := an.TakeLedger()
	for i := range changed {
		value, merr := json.Marshal(&changed[i])
		if merr != nil {
			return rows, framed, merr
		}
		rows.ledger[changed[i].String()] = string(value)
	}
	return rows, framed, err
}

// storedLedger returns the ledger of partition 0 of 1 by entry, nil if there are several partitions.
func storedLedger(ctx context.Context, js natsjs.JetStream) (map[string]string, error) {
	ledger := map[string]string{}
	err := replayStream(ctx, js, "KV_"+event.BucketLedger, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		key := strings.Split(strings.TrimPrefix(m.Subject(), "$KV."+event.BucketLedger+"."), ".")
		switch {
		case len(key) != 4:
			return fmt.Errorf("key %q", key)
		case key[1] != "1":
			ledger = nil
		case ledger != nil:
			ledger[key[3]] = string(m.Data())
		}
		return nil
	})
	return ledger, err
}

// countTallies sums the tallies by metric as an alert engine does: it ignores seconds that are not newer than the partition's
// last, which an earlier process has published.
func countTallies(ctx context.Context, js natsjs.JetStream) (sums map[string]uint64, err error) {
	next := map[int]int64{}
	sums = map[string]uint64{}
	err = replayStream(ctx, js, event.StreamTally, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		var t analyzer.Tally
		if err := json.Unmarshal(m.Data(), &t); err != nil {
			return err
		}
		if t.Second < next[t.Partition] {
			return nil
		}
		next[t.Partition] = t.Second + 1
		for _, c := range t.Counts {
			sums[c.Metric] += c.N
		}
		return nil
	})
	return sums, err
}

// check fails the test unless a is right.
func (a *audit) check(t *testing.T) {
	t.Helper()
	if a.missing > 0 || a.duplicates > 0 {
		t.Errorf("%d of %d acknowledged exchanges are missing; %d duplicate rows", a.missing, a.acked, a.duplicates)
	}
	if a.damaged {
		return
	}
	if a.tallied != uint64(a.stored) && !a.expired {
		t.Errorf("%d calls tallied, %d exchanges stored", a.tallied, a.stored)
	}
	if n := len(a.differences); n > 0 {
		t.Errorf("%d rows differ from an undisturbed run, such as:\n%s", n, strings.Join(a.differences[:min(n, 10)], "\n"))
	}
}

// columns formats rows of cells below a header row. It omits empty rows, of tests that did not run.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range slices.DeleteFunc(rows, func(r []string) bool { return len(r) == 0 }) {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

// quantile sorts ds and returns its q-quantile.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[int(q*float64(len(ds)-1))]
}

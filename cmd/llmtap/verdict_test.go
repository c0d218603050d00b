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

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/event"
)

// rowsByID are the rows of a run, each by its id with what makes it right or wrong.
type rowsByID struct {
	exchanges, findings, toolCalls map[string]string
	contents                       map[string]string // by the hash in their ids: where they lie follows from when their process began
	ledger                         map[string]string // of one partition; nil where there are several
}

// A verdict compares what a collector stored with what was acknowledged to the agents, and with what an analyzer makes
// of the same stream that nobody disturbs.
type verdict struct {
	acked, stored   int
	missing, double int // exchanges that were acknowledged and are not stored; rows of any table beyond the first of an id
	findings, calls int // tool calls
	entries         int // of the ledger
	wrong           []string
	tallied         uint64 // calls in the tallies, as an alert engine counts them
}

func (v *verdict) right() bool {
	return v.missing == 0 && v.double == 0 && len(v.wrong) == 0 && v.tallied == uint64(v.stored)
}

// judge waits until the collector has finished, and for as long as it takes to be sure that it does not.
func judge(t *testing.T, natsURL string, s *store, acked []string) *verdict {
	t.Helper()
	nc, err := nats.Connect(natsURL, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var v *verdict
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(500 * time.Millisecond) {
		v, err = compare(t.Context(), js, s, acked)
		if err == nil && v.right() {
			return v
		}
		if time.Now().After(deadline) {
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
}

func compare(ctx context.Context, js natsjs.JetStream, s *store, acked []string) (*verdict, error) {
	got, double, err := storedRows(ctx, s)
	if err != nil {
		return nil, err
	}
	v := &verdict{acked: len(acked), stored: len(got.exchanges), double: double, findings: len(got.findings), calls: len(got.toolCalls)}
	for _, id := range acked {
		if _, ok := got.exchanges[id]; !ok {
			v.missing++
		}
	}
	if v.tallied, err = countTallies(ctx, js); err != nil {
		return nil, err
	}
	want, err := undisturbed(ctx, js)
	if err != nil {
		return nil, err
	}
	if got.ledger, err = keptLedger(ctx, js); err != nil {
		return nil, err
	}
	v.entries = len(got.ledger)
	if got.ledger == nil {
		want.ledger = nil
	}
	v.wrong = slices.Concat(diff("ledger entry", want.ledger, got.ledger), diff("exchange", want.exchanges, got.exchanges), diff("finding", want.findings, got.findings), diff("tool call", want.toolCalls, got.toolCalls), diff("content", want.contents, got.contents))
	if len(got.contents) == 0 {
		v.wrong = append(v.wrong, "no content is stored")
	}
	lost, err := s.query(ctx, dangling)
	if err != nil {
		return nil, err
	}
	for _, r := range lost.Rows {
		v.wrong = append(v.wrong, fmt.Sprintf("exchange %v refers to a branch or to contents that are not stored", r[0]))
	}
	return v, nil
}

// dangling are the exchanges that cannot be put together again.
const dangling = `WITH (SELECT groupUniqArray(id) FROM messages) AS ids, (SELECT groupUniqArray(branch) FROM history) AS branches
	SELECT exchange_id FROM exchanges_final
	WHERE branch != '' AND NOT has(branches, branch) OR NOT hasAll(ids, arrayFilter(id -> id != '', arrayConcat(lead, [parameters, answer], mapValues(marked))))
	UNION ALL SELECT exchange_id FROM history_final WHERE message_id NOT IN (SELECT id FROM messages) LIMIT 20`

// diff says which rows are not as they should be.
func diff(what string, want, got map[string]string) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s %s is not stored: %s", what, id, want[id]))
		} else if g != want[id] {
			wrong = append(wrong, fmt.Sprintf("%s %s is %s, not %s", what, id, g, want[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s %s should not be: %s", what, id, got[id]))
		}
	}
	return wrong
}

// storedRows reads the final views. double counts the rows beyond the first of an id.
func storedRows(ctx context.Context, s *store) (rows rowsByID, double int, err error) {
	read := func(sql string) map[string]string {
		m := map[string]string{}
		for last := ""; err == nil; {
			// In pages, because an answer is limited.
			res, qerr := s.query(ctx, fmt.Sprintf("SELECT * FROM (%s) WHERE id > '%s' ORDER BY id LIMIT 50000", sql, last))
			if qerr != nil {
				err = qerr
				break
			}
			for _, r := range res.Rows {
				last = r[0].(string)
				m[last] = r[1].(string)
				double += int(r[2].(uint64)) - 1
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
	rows.contents = read("SELECT substring(id, 9) AS id, any(kind), toUInt64(1) FROM messages_final GROUP BY id") // elsewhere too is not too often
	return rows, double, err
}

// undisturbed is what an analyzer makes of the whole stream.
func undisturbed(ctx context.Context, js natsjs.JetStream) (rowsByID, error) {
	rows := rowsByID{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
	cfg := analyzer.Default()
	cfg.Epoch = 1
	an := analyzer.New(cfg, rules.InOrder, prometheus.NewRegistry())
	an.KeepContents(func(string) bool { return true }, nil)
	var out analyzer.Output
	collect := func() { // rows of one id come in the order of their versions
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
	err := replayStream(ctx, js, event.StreamEvents, func(m natsjs.Msg, meta *natsjs.MsgMetadata) error {
		ev, err := event.Decode(m.Subject(), event.Header(m.Headers()), m.Data())
		if err != nil {
			return err
		}
		an.Process(ev, analyzer.Position{Seq: meta.Sequence.Stream, Time: meta.Timestamp.UTC()}, true, &out)
		collect()
		return nil
	})
	an.Advance(time.Now(), true, &out)
	collect()
	changed, _ := an.TakeLedger()
	for i := range changed {
		value, merr := json.Marshal(&changed[i])
		if merr != nil {
			return rows, merr
		}
		rows.ledger[changed[i].String()] = string(value)
	}
	return rows, err
}

// keptLedger is the ledger of the partition 0 of 1 by entry, nil when the stream is cut into more.
func keptLedger(ctx context.Context, js natsjs.JetStream) (map[string]string, error) {
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

// countTallies adds up the calls in the tallies as an alert engine does: a second that is not newer than the partition's last
// is one that an earlier process has published.
func countTallies(ctx context.Context, js natsjs.JetStream) (calls uint64, err error) {
	next := map[int]int64{}
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
			if c.Metric == analyzer.MetricCalls || c.Metric == analyzer.MetricRetries || c.Metric == analyzer.MetricCancelled {
				calls += c.N
			}
		}
		return nil
	})
	return calls, err
}

// check fails the test unless v is right.
func (v *verdict) check(t *testing.T) {
	t.Helper()
	if v.missing > 0 || v.double > 0 {
		t.Errorf("of %d acknowledged exchanges %d are missing; %d rows are double", v.acked, v.missing, v.double)
	}
	if v.tallied != uint64(v.stored) {
		t.Errorf("the tallies count %d calls, %d exchanges are stored", v.tallied, v.stored)
	}
	if n := len(v.wrong); n > 0 {
		t.Errorf("%d rows are not those of an undisturbed run, such as:\n%s", n, strings.Join(v.wrong[:min(n, 10)], "\n"))
	}
}

// columns formats rows of cells, the first one the head. Rows of tests that did not run are empty and left out.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range slices.DeleteFunc(rows, func(r []string) bool { return len(r) == 0 }) {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

// quantile is the q-th part of ds, which it sorts.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[int(q*float64(len(ds)-1))]
}

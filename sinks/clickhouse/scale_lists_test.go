package clickhouse_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/clickhouse/scaletest"
)

var scaleNewest = flag.Int("newest", 0, "generate only this many of the -rows exchanges, the newest; 0: all")

// listRuns is how often TestScaleLists runs each statement.
const listRuns = 10

// scaleLists are the lists and filters of the last day whose statements TestScaleLists measures: query, by, and other parameters. USER and
// CONVERSATION are those of a call.
var scaleLists = []string{
	"calls sort=time since=1h", // the first statement of the page of calls
	"calls sort=time", "calls sort=cost", "calls sort=seconds", "calls sort=tokens",
	"calls service=service-11", "calls service=service-11 stage=planner", "calls status=503", "calls status=418", "calls failed=yes", "calls cause=unexplained",
	"calls user=USER", "calls conversation=CONVERSATION", "calls cost=0.02",
	"calls text=needle since=1h", "calls text=timeout since=1h", "calls text=needle", "calls text=timeout",
	"calls_by by=conversation sort=time", "calls_by by=conversation sort=cost", "calls_by by=conversation sort=failed",
	"calls_by by=conversation service=service-11 stage=planner", "calls_by by=conversation status=503", "calls_by by=conversation cause=unexplained",
	"calls_by by=conversation user=USER", "calls_by by=conversation text=needle",
	"calls_by by=run sort=time", "calls_by by=run sort=seconds", "calls_by by=run cause=unexplained",
	"calls_by by=user sort=time", "calls_by by=user sort=cost", "calls_by by=user sort=failed", "calls_by by=user cause=unexplained",
	"calls_by by=stage sort=calls", "calls_by by=model sort=calls", "calls_by by=cause sort=calls",
}

// TestScaleLists prints what the lists of the last day cost: the wall time of each statement, and the CPU time of ClickHouse on two cores,
// which does not depend on what else the machine does.
//
//	go test ./sinks/clickhouse -run TestScaleLists -rows 10000000 -newest 1400000 -v -timeout 60m
func TestScaleLists(t *testing.T) {
	t.Parallel()
	if *scaleRows <= 0 {
		t.Skip("NOT TESTED: use -rows 10000000, and perhaps -newest 1400000")
	}
	s := open(t)
	must.Do(t, scaletest.FillNewest(cmp.Or(*scaleNewest, *scaleRows), *scaleRows, time.Now(), func(sql string) error { return s.Exec(t.Context(), sql) }, t.Logf))
	settle(t, s)
	t.Log(measureLists(t, s))
}

// shownColumns returns the columns that the pages show, unless one chooses others.
func shownColumns(query, list string) []string {
	switch {
	case query == "calls":
		return strings.Fields("exchange_id started_at status cause service stage model seconds input_tokens cost service_version conversation_id next")
	case strings.Contains(list, "by=user"):
		return strings.Fields("group calls unpriced failed_calls main_reason of_service conversations input_tokens cost seconds last_call next")
	case strings.Contains(list, "by=conversation"), strings.Contains(list, "by=run"):
		return strings.Fields("group calls unpriced failed_calls main_reason of_service of_stage input_tokens cost seconds last_call next")
	}
	return strings.Fields("group calls unpriced failed_calls p95 input_tokens cost next")
}

// measureLists returns a table of what each list on s costs.
func measureLists(t *testing.T, s *clickhouse.Sink) string {
	t.Helper()
	ids := must.Get(s.Query(t.Context(), "SELECT user, conversation_id, (SELECT max(started_at) FROM exchanges) FROM exchanges ORDER BY started_at DESC LIMIT 1 OFFSET 1000", nil))(t).Rows[0]
	one := strings.NewReplacer("USER", fmt.Sprint(ids[0]), "CONVERSATION", fmt.Sprint(ids[1]))
	now, ok := ids[2].(time.Time)
	must.Equal(t, ok, true, "%T", ids[2])
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\nexchanges: %s\nlist of the last day\tCPU / 2: p50 ms\tp95 ms\twall: p50 ms\tp95 ms\trows out\n", machine(t, s), query(t, s, "SELECT count() FROM exchanges", nil))
	for _, list := range scaleLists {
		fields := strings.Fields(list)
		given := map[string]string{"since": "24h", "limit": "51"}
		for _, f := range fields[1:] {
			name, value, _ := strings.Cut(one.Replace(f), "=")
			given[name] = value
		}
		q := must.Get(queries.Get(fields[0]))(t).Only(shownColumns(fields[0], list)...)
		var cpu, wall []time.Duration
		rows := 0
		for range listRuns + 1 { // the first one warms up
			sql, params, err := q.Bind(valuesOf(given), now)
			must.Do(t, err)
			params["prices"] = price.Default().Bound()
			used, begin := cpuTime(t, s), time.Now()
			rows = len(must.Get(s.Query(t.Context(), sql, params))(t).Rows)
			wall = append(wall, time.Since(begin))
			cpu = append(cpu, (cpuTime(t, s)-used)/2)
		}
		line := list
		for _, all := range [][]time.Duration{cpu[1:], wall[1:]} {
			slices.Sort(all)
			line += fmt.Sprintf("\t%d\t%d", all[listRuns/2].Milliseconds(), all[(listRuns*95+99)/100-1].Milliseconds())
		}
		t.Log(line) // progress
		fmt.Fprintf(tw, "%s\t%d\n", line, rows)
	}
	must.Do(t, tw.Flush())
	return out.String()
}

// cpuTime returns the CPU time that all statements of the server used so far, 4 ms of which each call of it adds.
func cpuTime(t *testing.T, s *clickhouse.Sink) time.Duration {
	t.Helper()
	text := strings.TrimSpace(query(t, s, "SELECT value FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'", nil))
	return time.Duration(must.Get(strconv.ParseInt(text, 10, 64))(t)) * time.Microsecond
}

package clickhouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// A finding that is stored again with another time is in the time range of its newest row only, also in short time ranges, whose
// findings are looked up in the projection and read by key.
func TestFindingsOfTimeRange(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := time.Now().UTC()
	finding := func(id string, seq int, ago time.Duration) analyzer.Finding {
		return analyzer.Finding{
			ID: id, Fingerprint: id, Seq: uint64(seq), FirstSeen: now.Add(-ago), Labels: event.Labels{Service: "trips"}, Conversation: "conv-" + id, Rule: "masked_failure",
			Detail: id, Severity: "signal",
		}
	}
	const hour, day = time.Hour, 24 * time.Hour
	b := &sinks.Batch{Findings: []analyzer.Finding{
		finding("hour", 1, hour/2), finding("day", 2, day/2), finding("week", 3, 3*day), finding("later", 4, day/2), finding("earlier", 5, hour/2),
	}}
	for i := range 3000 {
		b.Findings = append(b.Findings, finding(fmt.Sprintf("old-%04d", i), 6, 20*day))
	}
	must.Do(t, s.Write(t.Context(), b))
	must.Do(t, s.Write(t.Context(), &sinks.Batch{Findings: []analyzer.Finding{
		finding("later", 14, hour/3), finding("earlier", 15, 3*day), finding("hour", 1, hour/2), finding("new", 16, hour/4),
	}}))
	check := func() {
		t.Helper()
		for _, test := range []struct{ since, until, want string }{
			{"1 hour", "", "hour later new"},
			{"1 day", "", "day hour later new"},
			{"1 day", "6 hours", "day"},
			{"13 hours", "11 hours", "day"},
			{"7 days", "", "day earlier hour later new week"},
			{"73 hours", "71 hours", "earlier week"},
			{"5 minutes", "", ""},
		} {
			given := queries.Values{"since": {test.since}}
			if test.until != "" {
				given["until"] = []string{test.until}
			}
			for name, column := range map[string]string{"masked_failures": "cause", "finding_examples": "conversation_id"} {
				if name == "finding_examples" {
					given["rule"] = []string{"masked_failure"}
				} else {
					delete(given, "rule")
				}
				q := must.Get(queries.Get(name))(t)
				sql, params, err := q.Bind(given, now)
				must.Do(t, err)
				got := query(t, s, "SELECT arrayStringConcat(arraySort(groupArray(replaceOne(toString("+column+"), 'conv-', ''))), ' ') FROM ("+sql+")", params)
				must.Equal(t, got, test.want+"\n", "%s from %s to %s", name, test.since, test.until)
			}
		}
	}
	check()
	must.Do(t, s.Exec(t.Context(), "OPTIMIZE TABLE findings FINAL"))
	check()

	q := must.Get(queries.Get("masked_failures"))(t)
	plan := func(since string) string {
		sql, params, err := q.Bind(queries.Values{"since": {since}}, now)
		must.Do(t, err)
		return query(t, s, "EXPLAIN indexes = 1 "+sql, params)
	}
	must.Contain(t, plan("1 hour"), "(conversation_id, finding_id) in 3-element set", "the findings of an hour are not read by key")
	if p := plan("7 days"); strings.Contains(p, "-element set") {
		t.Errorf("the findings of seven days are looked up:\n%s", p)
	}
	p := query(t, s, "EXPLAIN projections = 1 SELECT conversation_id, finding_id FROM findings WHERE first_seen >= now() - 3600 AND first_seen < now()", nil)
	must.Contain(t, p, "by_time", "the keys of an hour are not read from the projection")
}

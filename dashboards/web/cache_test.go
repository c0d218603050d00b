package web

import (
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// cacheRows are two versions of a stage: 2.4.0 reads nearly everything, 2.5.0 breaks the cache in each call.
func cacheRows() map[string]*Table {
	at := func(minutes int) time.Time { return testNow.Add(time.Duration(minutes-60) * time.Minute) }
	breaks := &Table{}
	for _, c := range []string{
		"service", "stage", "service_version", "reason", "element", "detail", "calls", "input_tokens", "cached_tokens", "reusable", "missed", "missed_usd", "unpriced",
		"first_call", "last_call", "first_exchange_id", "worst_exchange_id", "most_missed",
	} {
		breaks.Columns = append(breaks.Columns, Column{Name: c})
	}
	breaks.Rows = [][]any{
		{"checkout-agent", "planner", "2.5.0", "system_changed", "system", "time", uint64(40), int64(400_000), int64(0), int64(380_000), int64(380_000), 0.95, int64(0), at(40), at(59), "e-first", "e-worst", int64(10_000)},
		{"checkout-agent", "planner", "2.4.0", "evicted", "", "", uint64(2), int64(20_000), int64(8000), int64(18_000), int64(10_000), 0.025, int64(0), at(10), at(30), "e-evicted", "e-evicted", int64(6000)},
		{"checkout-agent", "planner", "2.4.0", "", "", "", uint64(100), int64(1_000_000), int64(950_000), int64(950_000), int64(0), 0.0, int64(0), at(1), at(39), "e-fine", "e-fine", int64(0)},
		{"support-agent", "triage", "", "tools_changed", "tools[3]", hostile, uint64(3), int64(9000), int64(3000), int64(6000), int64(3000), 0.0, int64(3000), at(20), at(21), "e-tools", "e-tools", int64(1000)},
	}
	over := &Table{Columns: []Column{{Name: "time"}, {Name: "reason"}, {Name: "reusable"}, {Name: "missed"}}}
	for minute := range 60 {
		over.Rows = append(over.Rows, []any{at(minute), "", int64(20_000), int64(0)})
		if minute >= 40 {
			over.Rows[minute] = []any{at(minute), "system_changed", int64(19_000), int64(19_000)}
		}
	}
	return map[string]*Table{"and what broke it?": breaks, "and which were not, over time?": over}
}

func TestCacheSection(t *testing.T) {
	page := func(path string, rows map[string]*Table) string {
		t.Helper()
		_, body := get(handler(t, fakeSource{rows: rows}.options()), path)
		harmless(t, body)
		_, body, ok := strings.Cut(body, `<section id="cache">`)
		body, _, _ = strings.Cut(body, "</section>")
		must.Equal(t, ok, rows != nil, "%s has a section about the cache", path)
		return body
	}
	page("/?service=checkout-agent&stage=planner", nil) // nothing is known
	page("/versions", nil)

	body := page("/?service=checkout-agent&stage=planner", cacheRows())
	wantAll(t, body, "71% of the tokens that could be read from the cache were: 961,000 of 1,354,000. The other 393,000 cost over $0.97 more; the largest part because the system prompt changed (time), since 2.5.0.",
		"<td>The system prompt changed (time)</td>", `<td>checkout-agent/planner</td>
<td>since <code>2.5.0</code> <small>last clean <code>2.4.0</code></small></td>
<td class="n">380,000</td>`,
		`<b>$0.95</b></td><td class="n">$68.40</td>`, // 20 minutes are a 72nd of a day
		`<a href="/exchange/e-first?service=checkout-agent&amp;stage=planner">first call</a>`, "/exchange/e-worst", "The provider no longer had it <small>not avoidable</small>", "price unknown",
		"Reusable tokens that were read 0%", "19,000 missed tokens")
	if i, j := strings.Index(body, "price unknown"), strings.Index(body, "no longer had it <small>"); i < j {
		t.Error("an unknown price is before a known one")
	}

	body = page("/versions", cacheRows())
	wantAll(t, body, `<td>checkout-agent <code>2.5.0</code></td><td class="n">0%</td><td class="n">$0.95</td><td>The system prompt changed (time)</td><td class="n">380,000</td><td class="n">0%</td><td class="n"><a href="/traffic/calls?service=checkout-agent&amp;version=2.5.0">40</a></td>`,
		"; the largest part in 2.5.0 of checkout-agent, because the system prompt changed (time).",
		`<code>2.4.0</code></td><td class="n">99%</td>`, `<td class="n">10,000</td><td class="n">94%</td><td class="n"><a href="/traffic/calls?service=checkout-agent&amp;version=2.4.0">102</a></td>`, `<code>none</code>`)
	if strings.Index(body, "2.5.0") > strings.Index(body, "2.4.0") {
		t.Error("the newest version is not the first")
	}
}

// A provider that reads from its cache what no known prompt explains has a section without charts.
func TestCacheOnlyRead(t *testing.T) {
	rows := cacheRows()
	for _, x := range rows {
		x.Rows = nil
	}
	all := rows["and what broke it?"]
	all.Rows = [][]any{{"a", "b", "1", "", "", "", uint64(1), int64(4000), int64(1000), int64(0), int64(0), 0.0, int64(0), testNow, testNow, "e", "e", int64(0)}}
	_, body := get(handler(t, fakeSource{rows: rows}.options()), "/")
	wantAll(t, body, "25% of 4,000 input tokens were read from the cache. No earlier prompt is known that could have been read instead.")
}

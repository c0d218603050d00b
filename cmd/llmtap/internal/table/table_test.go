package table

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

func someResult() *clickhouse.Result {
	at := time.Date(2026, 11, 20, 9, 30, 0, 5e8, time.UTC)
	return &clickhouse.Result{
		Columns: []clickhouse.Column{
			{Name: "cause", Type: "String"},
			{Name: "failed_calls", Type: "UInt64"},
			{Name: "percent_of_failed", Type: "Nullable(Float64)"},
			{Name: "versions", Type: "Array(String)"},
			{Name: "last_seen", Type: "DateTime64(9, 'UTC')"},
			{Name: "last_error_text", Type: "String"},
			{Name: "last_exchange_id", Type: "String"},
		},
		Rows: [][]any{
			{"orphan_tool_reply", uint64(412), 96.9, []string{"1.5.0", "1.5.1"}, at, "Messages with role 'tool' must be a response\nto a preceding message with 'tool_calls' \x1b[2J", "019aa0b0-0000-7014-8000-000000000014"},
			{"rate_limit", uint64(13), nil, []string{}, at, "", "019aa0b0-0000-7014-8000-000000000015"},
		},
	}
}

func TestWrite(t *testing.T) {
	f := func(format string, width int, want string) {
		t.Helper()
		var b strings.Builder
		must.Do(t, Write(&b, someResult(), format, &terminal.Style{Width: width}))
		if d := cmp.Diff(strings.TrimPrefix(want, "\n"), b.String()); d != "" && want != "" {
			t.Errorf("%s, %d columns (-want +got):\n%s", format, width, d)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("line of %d columns, want at most %d: %s", n, width, line)
			}
		}
	}
	f("text", 200, `
                           percent
                   failed       of                last_seen
cause               calls   failed  versions      UTC                  last_error_text                                               last_exchange_id
orphan_tool_reply     412     96.9  1.5.0, 1.5.1  2026-11-20 09:30:00  Messages with role 'tool' must be a response to a preceding…  019aa0b0-0000-7014-8000-000000000014
rate_limit             13        -                2026-11-20 09:30:00                                                                019aa0b0-0000-7014-8000-000000000015
`)
	f("text", 140, "") // the long text is shortened
	f("text", 80, `
── 1
  cause: orphan_tool_reply   failed_calls: 412   percent_of_failed: 96.9
  versions: 1.5.0, 1.5.1   last_seen: 2026-11-20 09:30:00 UTC
  last_error_text: Messages with role 'tool' must be a response to a preceding
    message with 'tool_calls' \u001b[2J
  last_exchange_id: 019aa0b0-0000-7014-8000-000000000014
── 2
  cause: rate_limit   failed_calls: 13   percent_of_failed: -
  last_seen: 2026-11-20 09:30:00 UTC
  last_exchange_id: 019aa0b0-0000-7014-8000-000000000015
`)
	f("json", 0, `
[
{"cause":"orphan_tool_reply","failed_calls":412,"percent_of_failed":96.9,"versions":["1.5.0","1.5.1"],"last_seen":"2026-11-20T09:30:00.5Z","last_error_text":"Messages with role 'tool' must be a response\nto a preceding message with 'tool_calls' \u001b[2J","last_exchange_id":"019aa0b0-0000-7014-8000-000000000014"},
{"cause":"rate_limit","failed_calls":13,"percent_of_failed":null,"versions":[],"last_seen":"2026-11-20T09:30:00.5Z","last_error_text":"","last_exchange_id":"019aa0b0-0000-7014-8000-000000000015"}
]
`)
	f("csv", 0, `
cause,failed_calls,percent_of_failed,versions,last_seen,last_error_text,last_exchange_id
orphan_tool_reply,412,96.9,"[""1.5.0"",""1.5.1""]",2026-11-20T09:30:00.5Z,"Messages with role 'tool' must be a response
to a preceding message with 'tool_calls' `+"\x1b"+`[2J",019aa0b0-0000-7014-8000-000000000014
rate_limit,13,,[],2026-11-20T09:30:00.5Z,,019aa0b0-0000-7014-8000-000000000015
`)
}

// An empty result is valid in every format, and numbers that JSON cannot represent are null.
func TestWriteEmpty(t *testing.T) {
	f := func(format string, res *clickhouse.Result, want string) {
		t.Helper()
		var b strings.Builder
		if err := Write(&b, res, format, &terminal.Style{Width: 80}); err != nil || b.String() != want {
			t.Errorf("%s: %v, %q, want %q", format, err, b.String(), want)
		}
	}
	empty := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "a"}, {Name: "b"}}}
	f("text", empty, "(no rows)\n")
	f("json", empty, "[]\n")
	f("jsonl", empty, "")
	f("csv", empty, "a,b\n")
	odd := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "a"}, {Name: "b"}}, Rows: [][]any{{math.NaN(), "<&>"}}, Truncated: true}
	f("jsonl", odd, `{"a":null,"b":"<&>"}`+"\n")
	f("csv", odd, "a,b\n,<&>\n")
	f("text", odd, "  a  b\nNaN  <&>\n(only the first 1 row)\n")
}

// Times are in the zone of the style. The header names the zone, unless the clocks changed within the column.
func TestZone(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	f := func(want string, times ...time.Time) {
		t.Helper()
		res := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "at", Type: "DateTime64(9, 'UTC')"}, {Name: "n"}}}
		for i, at := range times {
			res.Rows = append(res.Rows, []any{at, i})
		}
		var b strings.Builder
		must.Do(t, Write(&b, res, "text", &terminal.Style{Width: 80, Zone: berlin, Color: true}))
		must.Agree(t, cmp.Diff(want, b.String()))
	}
	summer, winter := time.Date(2026, 10, 25, 0, 59, 59, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
	f("\x1b[1mat\x1b[0m\n\x1b[1mCET                  n\x1b[0m\n2026-10-25 02:00:00  0\n                     1\n", winter, time.Unix(0, 0))
	f("\x1b[1mat                        n\x1b[0m\n2026-10-25 02:59:59 CEST  0\n2026-10-25 02:00:00 CET   1\n", summer, winter)
}

// The formats of Encoder are those of Write.
func TestEncoder(t *testing.T) {
	type row struct {
		ID    string   `json:"id"`
		N     *int     `json:"n,omitempty"`
		Names []string `json:"names"`
		other int
	}
	one := 1
	rows := []row{{"a", &one, []string{"x", "<y>"}, 0}, {"b\n", nil, nil, 0}}
	f := func(format, want string, rows ...row) {
		t.Helper()
		var b strings.Builder
		e := Encoder{W: &b, Format: format}
		for i := range rows {
			must.Do(t, e.Encode(&rows[i]))
		}
		if err := e.Close(); err != nil || b.String() != want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
	const a, b = `{"id":"a","n":1,"names":["x","<y>"]}`, `{"id":"b\n","names":null}`
	f("json", "[\n"+a+",\n"+b+"\n]\n", rows...)
	f("json", "[]\n")
	f("jsonl", a+"\n"+b+"\n", rows...)
	f("jsonl", "")
	f("csv", "id,n,names\na,1,\"[\"\"x\"\",\"\"<y>\"\"]\"\n\"b\n\",,\n", rows...)
}

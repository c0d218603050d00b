package sizing

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/bench"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// fleet returns a fleet of calls per second.
func fleet(calls float64) Fleet {
	f := Recorded()
	f.Calls, f.Conversations, f.Services, f.Series = calls, calls*600, 20, 120
	return f
}

// Measurements determine the costs of a call and of a byte.
func TestRead(t *testing.T) {
	want := Cost{PerCall: 2e-4, PerByte: 3e-9}
	report := func(calls, bytes float64) bench.Report {
		return bench.Report{Analyzers: 1, Run: bench.Measurement{
			Failed: 20, Calls: int64(calls), Bytes: int64(bytes), Seconds: 10, CPU: map[string]float64{bench.NATS: want.Of(calls, bytes), bench.Analyzer: 2 * want.Of(calls, bytes), bench.ClickHouse: want.Of(60, bytes/2)},
			Volume: bench.Volume{SkippedBytes: bytes / 2, StoreBytes: bytes / 8, Inserts: 60, Checkpoints: 10, LedgerWrites: 20},
			State:  bench.State{Conversations: 100, ConversationBytes: 300_000},
		}}
	}
	var files []string
	for i, x := range []bench.Report{report(1000, 4e6), report(500, 3e7), report(700, 9e6)} {
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(t.TempDir(), string(rune('a'+i))+".json"))
		if err := os.WriteFile(files[i], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	for what, c := range map[string]Cost{"NATS": m.NATS, "ClickHouse": {m.ClickHousePerInsert, m.ClickHousePerNewByte}} {
		near(what, c.PerCall, want.PerCall)
		near(what, c.PerByte, want.PerByte)
	}
	near("analyzer", m.Analyzer.PerCall, 2*want.PerCall)
	near("inserts", m.InsertsPerBatch, 6)
	near("ledger", m.LedgerPerFailure, 1)
	near("disk", m.DiskPerNewByte, 0.25)
	near("conversation", m.ConversationBytes, 3000)
	if _, err := Read(files[0]); err == nil {
		t.Error("no error for one report")
	}
	if _, err := Read(files[0], files[0]); err == nil {
		t.Error("no error for twice the same report")
	}
}

// At the rate of a limit, the need just reaches it; a larger fleet needs at least as much of everything.
func TestLimits(t *testing.T) {
	m, cfg := Default(), config.Default()
	list := Limits(fleet(100), &m, &cfg)
	if !slices.IsSortedFunc(list, func(a, b Limit) int { return int(math.Copysign(1, a.Calls-b.Calls)) }) {
		t.Errorf("not sorted: %+v", list)
	}
	for _, l := range list {
		if l.Calls <= 0 || math.IsNaN(l.Calls) || l.What == "" || l.Change == "" {
			t.Errorf("limit %+v", l)
		}
	}
	for _, l := range list {
		if l.What == "the cores of one analyzer" {
			if n := Compute(fleet(l.Calls), &m, &cfg); math.Abs(n.AnalyzerCores-busy*n.Fleet.Cores) > 1e-6 {
				t.Errorf("%g cores at %+v", n.AnalyzerCores, l)
			}
		}
	}
	var before map[string]any
	for _, n := range Factors {
		text, err := json.Marshal(Compute(fleet(100).times(n), &m, &cfg))
		if err != nil {
			t.Fatal(err)
		}
		var now map[string]any
		if err := json.Unmarshal(text, &now); err != nil {
			t.Fatal(err)
		}
		delete(now, "fleet")
		for k, v := range before {
			if now[k].(float64) < v.(float64) {
				t.Errorf("%s shrinks at %g times the calls: %v, then %v", k, n, v, now[k])
			}
		}
		before = now
	}
}

func TestSeries(t *testing.T) {
	f := Fleet{Calls: 1e6, Series: 120}
	if got := seriesPerSecond(f, 1); math.Abs(got-120) > 1e-6 {
		t.Errorf("all series have calls: %g", got)
	}
	f.Calls = 1
	if got := seriesPerSecond(f, 1); got > 1 || got < 0.99 {
		t.Errorf("one call: %g", got)
	}
	f.Calls = 1e6
	if got := seriesPerSecond(f, 4); math.Abs(got-480) > 1e-6 {
		t.Errorf("each partition counts each series: %g", got)
	}
}

func TestReportWidth(t *testing.T) {
	m, cfg := Default(), config.Default()
	var b strings.Builder
	NewReport(fleet(987), &m, &cfg).write(&b)
	t.Log("\n" + b.String())
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestUnit(t *testing.T) {
	f := func(n float64, want string) {
		t.Helper()
		if diff := cmp.Diff(want, unit(n, "B")); diff != "" {
			t.Error(diff)
		}
	}
	f(0.5, "0.50 B")
	f(999, "999 B")
	f(1234, "1.2 kB")
	f(45_600_000, "46 MB")
	f(999_900, "1.0 MB")
	f(3.2e12, "3.2 TB")
}

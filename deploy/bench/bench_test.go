package main

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var update = flag.Bool("update", false, "write the output of size to SIZING.md")

func TestMain(m *testing.M) {
	chdb.RunChild()
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") { // a process of TestRate or TestProxy
		main()
		return
	}
	os.Exit(m.Run())
}

// Every call of a fleet is stored once, by analyzers of which each has a process, while ClickHouse is stopped for a second.
func TestRate(t *testing.T) {
	slowtest.Skip(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	if _, err := chdb.PresentLibrary(chdb.LibraryConfig{}); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	must.Do(t, run(t.Context(), &out, "rate", "-rate", "30", "-for", "2s", "-step", "1s", "-services", "3", "-analyzers", "2", "-outage", "1s", "-sample", "500ms"))
	t.Log("\n" + out.String())
	for _, want := range []string{"| 30 calls/s ", " NATS ", " alert ", " analyzer ", " engine "} {
		must.Contain(t, out.String(), want)
	}
}

// Hooks in processes of their own publish each call once, and stages that fail raise alerts.
func TestRateProcesses(t *testing.T) {
	slowtest.Skip(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	if _, err := chdb.PresentLibrary(chdb.LibraryConfig{}); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	must.Do(t, run(t.Context(), &out, "rate", "-rate", "20", "-for", "8s", "-step", "1s", "-processes", "4"))
	t.Log("\n" + out.String())
	must.Contain(t, out.String(), "| alerts missing | drain s")
}

// Calls through proxies get their answers, whole and streamed.
func TestProxy(t *testing.T) {
	slowtest.Skip(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	must.Do(t, run(t.Context(), &out, "proxy", "-only", "bare,llmtap", "-runs", "1", "-for", "1s"))
	t.Log("\n" + out.String())
	for _, want := range []string{"| a bare Go ReverseProxy ", "| llmtap, role proxy "} {
		must.Contain(t, out.String(), want)
	}
}

// Texts do not repeat, because llmtap would store them once.
func TestCorpus(t *testing.T) {
	text := must.Get(readCorpus(t.Context()))(t)
	text.text = text.text[:10<<20]
	seen := map[string]bool{}
	for range 6000 { // 5 passes
		seen[text.next(8000)], seen[text.next(400)] = true, true
	}
	if len(seen) < 11_900 { // licenses are the same
		t.Errorf("%d of 12,000 texts differ", len(seen))
	}
}

func TestHighest(t *testing.T) {
	f := func(capacity float64) {
		t.Helper()
		tried := 0
		got, err := highest(firstRate, highestRate, func(rate float64) (bool, error) {
			tried++
			return rate <= capacity, nil
		})
		if err != nil || got > capacity || got*precision < min(capacity, highestRate/2) || tried > 24 {
			t.Errorf("capacity %g: %g after %d rates, %v", capacity, got, tried, err)
		}
	}
	for _, capacity := range []float64{1.5, 7, 99, 100, 101, 640, 12_345, 2e6} {
		f(capacity)
	}
	must.Fail(t, must.Err(highest(firstRate, highestRate, func(float64) (bool, error) { return false, nil })), "", "no error if no rate is sustained")
}

// deploy/SIZING.md shows the output, between two comments.
func TestSize(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, run(t.Context(), &out, "size"))
	file := filepath.Join("..", "SIZING.md")
	doc := must.Get(os.ReadFile(file))(t)
	before, rest, begun := strings.Cut(string(doc), "<!-- size: go test ./deploy/bench -run TestSize -update -->\n")
	_, after, ended := strings.Cut(rest, "\n<!-- /size -->")
	if !begun || !ended {
		t.Fatal("SIZING.md lacks the comments around the output of size")
	}
	want := before + "<!-- size: go test ./deploy/bench -run TestSize -update -->\n" + out.String() + "\n<!-- /size -->" + after
	if *update {
		must.Do(t, os.WriteFile(file, []byte(want), 0o600))
	} else if want != string(doc) {
		t.Error("deploy/SIZING.md does not show the output of size; go test ./deploy/bench -run TestSize -update writes it")
	}
	must.Fail(t, run(t.Context(), &out, "size", "-calls", "0"), "", "no error for no calls")
}

// At the rate of a limit, the need just reaches it.
func TestLimits(t *testing.T) {
	d := demand{calls: 100, callBytes: 37_000, newBytes: 5800, conversations: 60_000, services: 20, series: 120, failed: 0.03, days: 14, cores: 16, memory: 16 << 30, replicas: 3}
	list := limits(d)
	if len(list) == 0 || !slices.IsSortedFunc(list, func(a, b limit) int { return int(math.Copysign(1, a.calls-b.calls)) }) {
		t.Errorf("not sorted: %+v", list)
	}
	for _, l := range list {
		if l.calls <= 0 || math.IsNaN(l.calls) {
			t.Errorf("limit %+v", l)
		}
		if n := compute(d.times(l.calls / d.calls)); l.what == "the cores of one analyzer" && math.Abs(n.analyzerCores-busy*n.cores) > 1e-6 {
			t.Errorf("%g cores at %+v", n.analyzerCores, l)
		}
	}
	for calls, want := range map[float64][2]float64{1e6: {120, 480}, 1: {1, 1}} { // all series have calls, or each call has its own
		d.calls = calls
		for i, partitions := range []float64{1, 4} {
			if got := seriesPerSecond(d, partitions); math.Abs(got-want[i]) > 0.01 {
				t.Errorf("%g series of %g calls in %g partitions, want %g", got, calls, partitions, want[i])
			}
		}
	}
}

// The defaults that size computes with are those of llmtap.
func TestDefaults(t *testing.T) {
	example := must.Get(os.ReadFile(filepath.Join("..", "llmtap.example.yaml")))(t)
	for _, want := range []string{
		"limit: 640MiB", "session_lookback: 30m", "session_lookback_bytes: 4GiB", "flush_interval: 1s", "large_flush_interval: 3s",
		"max_label_values: 200", "max_series: 20000", "retention: 1h",
	} {
		must.Contain(t, string(example), "\n  "+want+"\n", want, "is not the default")
	}
	if lookback != 30*60 || lookbackBytes != 4<<30 || memoryLimit != 640<<20 || flushInterval != 1 || largeInterval != 3 || maxLabelValues != 200 || maxSeries != 20_000 || retention != 3600 {
		t.Error("the constants are others")
	}
}

func TestAmount(t *testing.T) {
	for n, want := range map[float64]string{0.5: "0.50 B", 999: "999 B", 1234: "1.2 kB", 45_600_000: "46 MB", 999_900: "1.0 MB", 3.2e12: "3.2 TB"} {
		must.Equal(t, amount(n, "B"), want, "%g", n)
	}
}

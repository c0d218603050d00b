package main

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/bench"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
)

// A benchmark measures its own processes, or those of given servers: every call is stored once.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 seconds")
	}
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	f := func(t *testing.T, args ...string) *bench.Report {
		t.Helper()
		t.Parallel()
		args = slices.Concat([]string{"bench", "--rate", "30", "--duration", "2s", "--step", "1s", "--services", "3", "--format", "json"}, args)
		stdout, stderr, code := runCommand(t, "", args...)
		if code != 0 {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		var x bench.Report
		if err := json.Unmarshal([]byte(stdout), &x); err != nil {
			t.Fatal(err)
		}
		m := &x.Run
		if m.Calls == 0 || m.Published != m.Calls || m.Stored != m.Calls || m.Lost > 0 || m.Double > 0 || m.Events != 2*m.Calls || m.Queryable.Count == 0 {
			t.Errorf("measurement: %+v", m)
		}
		return &x
	}
	t.Run("processes", func(t *testing.T) {
		x := f(t, "--analyzers", "2", "--sample", "500ms")
		m := &x.Run
		for _, name := range []string{bench.NATS, bench.Analyzer, bench.Alert, bench.ClickHouse, bench.Load} {
			if m.Memory[name] == 0 {
				t.Errorf("no memory of %s: %v", name, m.Memory)
			}
		}
		if m.CPU[bench.Analyzer] == 0 || m.Volume.Inserts == 0 || m.Volume.Checkpoints == 0 || m.Volume.Tallies == 0 || m.Volume.Rows["exchanges"] < float64(m.Calls) {
			t.Errorf("measurement: %+v", m)
		}
		if len(x.Samples) < 2 || x.Samples[0].Goroutines == 0 || x.Samples[0].Files == 0 || x.Samples[0].Store == 0 {
			t.Errorf("samples: %+v", x.Samples)
		}
	})
	t.Run("given", func(t *testing.T) {
		u := startUp(t)
		u.ready(t)
		x := f(t, "--data-dir", u.dir)
		if !x.Given || x.Run.Alerting != nil || x.Run.CPU[bench.ClickHouse] != 0 {
			t.Errorf("report: %+v", x)
		}
	})
}

func TestSize(t *testing.T) {
	stdout, stderr, code := runCommand(t, "", "size", "--calls", "50")
	if code != 0 || !strings.Contains(stdout, "calls per second                          50         500       5,000      50,000\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	// deploy/SIZING.md shows the output, in its last block.
	stdout, _, _ = runCommand(t, "", "size")
	file := filepath.Join("..", "..", "deploy", "SIZING.md")
	doc := source(t, "deploy/SIZING.md")
	begin := strings.LastIndex(doc[:strings.LastIndex(doc, "```")], "```") + len("```\n")
	if want := doc[:begin] + stdout + doc[strings.LastIndex(doc, "```"):]; *update {
		filetest.Write(t, file, want)
	} else if want != doc {
		t.Error("deploy/SIZING.md does not show the output of llmtap size: go test ./cmd/llmtap -run TestSize -update")
	}
	if _, stderr, code := runCommand(t, "", "size", "--calls", "0"); code != 2 || stderr != "llmtap: --calls: 0 is not above 0\n" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

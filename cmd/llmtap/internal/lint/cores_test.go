package lint

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The output does not depend on the number of cores.
func TestCores(t *testing.T) {
	files := []string{recordedtest.Path(t, recordedtest.Exchanges), recordedtest.Path(t, recordedtest.Conversations)}
	if testing.Short() {
		files = files[:1] // conversations are slow under the race detector
	}
	f := func(name string, printer func(b *bytes.Buffer) Printer) {
		t.Helper()
		output := func(cores int) string {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			var b bytes.Buffer
			must.Do(t, New(printer(&b)).Files(t.Context(), files, nil))
			return b.String()
		}
		want := output(1)
		if got := output(5); got != want || len(want) < 10_000 {
			t.Errorf("%s: %d bytes on 5 cores differ from %d on one", name, len(got), len(want))
		}
	}
	f("text", func(b *bytes.Buffer) Printer { return Text{W: b, Style: &terminal.Style{Unbroken: true}} })
	if testing.Short() {
		return // one goroutine prints, whatever the format
	}
	f("jsonl", func(b *bytes.Buffer) Printer { return Rows{E: &table.Encoder{W: b, Format: "jsonl"}} })
	f("sarif", func(b *bytes.Buffer) Printer { return &SARIF{W: b} })
}

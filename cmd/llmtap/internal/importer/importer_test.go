package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A fake is a Publisher whose exchanges are stored after the given number of queries.
type fake struct {
	events  []*event.Event
	queries int
	delay   int
}

func (f *fake) Publish(_ context.Context, e *event.Event) error {
	f.events = append(f.events, e)
	return nil
}

func (f *fake) Flush(context.Context) error { return nil }

func (f *fake) Query(_ context.Context, sql string, _ map[string]string) (*clickhouse.Result, error) {
	if strings.Contains(sql, "findings FINAL") {
		return &clickhouse.Result{Columns: []clickhouse.Column{{Name: "severity"}, {Name: "n"}}, Rows: [][]any{{"reject", uint64(1)}}}, nil
	}
	n := uint64(0)
	if f.queries++; f.queries > f.delay {
		n = uint64(len(f.events) / 2)
	}
	return &clickhouse.Result{Columns: []clickhouse.Column{{Name: "n"}}, Rows: [][]any{{n}}}, nil
}

const exchange = `{"url":"https://api.openai.com/v1/chat/completions","request":{"model":"m","messages":[{"role":"user","content":"%d"}]},"status":200,"response":{}}` + "\n"

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := fmt.Sprintf(exchange, 1)
		file := filepath.Join(t.TempDir(), "log.jsonl")
		must.Do(t, os.WriteFile(file, []byte(one+fmt.Sprintf(exchange, 2)+one+"{\n"), 0o600))
		var stderr, out bytes.Buffer
		f := &fake{delay: 3}
		im := &Importer{
			Config: recorded.Config{Service: "imported", Instance: "i"}, Publisher: f, Store: f, Stdin: strings.NewReader(fmt.Sprintf(exchange, 3)),
			Progress: terminal.NewProgress(&stderr),
		}
		must.Do(t, im.Run(t.Context(), []string{file, "-", "nosuch.jsonl"}))
		stored := uint64(3)
		r := im.Report
		want := Report{
			Files: 3, Records: 5, Exchanges: 3, Skipped: map[recorded.Reason]int{duplicate: 1, recorded.NotJSON: 1}, Broken: 1, Untimed: 3,
			Bytes: r.Bytes, Seconds: r.Seconds, Stored: &stored, Findings: map[string]uint64{"reject": 1},
		}
		if diff := cmp.Diff(want, r); diff != "" || r.Complete() {
			t.Errorf("complete %v (-want +got):\n%s", r.Complete(), diff)
		}
		for i, e := range f.events {
			must.Equal(t, e.Seq, uint64(i+1), "event %d has sequence", i)
		}
		if s := stderr.String(); !strings.Contains(s, "log.jsonl:4: ") || !strings.Contains(s, "open nosuch.jsonl") {
			t.Errorf("stderr: %s", s)
		}
		if err := r.Write(&out, command.Text); err != nil || !strings.Contains(out.String(), "imported 3 calls of 5 records: ") ||
			!strings.Contains(out.String(), "  stored: 3, with findings: 1 reject\n") {
			t.Errorf("%v\n%s", err, &out)
		}
	})
}

// The requests and the answers of a batch are joined whatever the order of the files.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		return path
	}
	request := func(id, model string) string {
		return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q}}`, id, model)
	}
	answer := func(id, request string) string {
		return fmt.Sprintf(`{"id":"r","custom_id":%q,"response":{"status_code":200,"request_id":%q,"body":{}},"error":null}`, id, request)
	}
	requests := write("in", request("a", "m"), request("b", "m"), request("c", "m"), request("b", "m"))
	answers := write("out", answer("c", "req_c"), answer("a", "req_a"), answer("x", "req_x"))
	other := write("in2", request("a", "other"))
	again := write("out2", answer("c", "req_c2"))
	f := func(files []string, skipped map[recorded.Reason]int, want ...string) {
		t.Helper()
		p := &fake{}
		var stderr bytes.Buffer
		im := &Importer{Publisher: p, Progress: terminal.NewProgress(&stderr)}
		must.Do(t, im.Run(t.Context(), files))
		var got []string
		for i := 0; i < len(p.events); i += 2 {
			q, s := p.events[i], p.events[i+1]
			got = append(got, fmt.Sprintf("%s %d %s%s", q.Attrs["custom_id"], s.Status, s.ProviderRequestID, s.Error))
		}
		must.Agree(t, cmp.Diff(want, got), &stderr)
		must.Agree(t, cmp.Diff(skipped, im.Report.Skipped), &stderr)
	}
	const none = " 0 cancelled: no answer was imported"
	f([]string{requests}, map[recorded.Reason]int{duplicate: 1}, "a"+none, "b"+none, "c"+none)
	f([]string{requests, answers}, map[recorded.Reason]int{duplicate: 1, noRequest: 1}, "a 200 req_a", "b"+none, "c 200 req_c")
	f([]string{answers, requests}, map[recorded.Reason]int{duplicate: 1, noRequest: 1}, "a 200 req_a", "b"+none, "c 200 req_c")
	f([]string{answers, requests, other, again, again, answers}, map[recorded.Reason]int{duplicate: 1, noRequest: 1, ambiguous: 3}, "a 200 req_a", "b"+none, "c"+none)
}

func TestRunStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{delay: 1e9}
		im := &Importer{Publisher: f, Store: f, Stdin: strings.NewReader(fmt.Sprintf(exchange, 1)), Progress: terminal.NewProgress(&bytes.Buffer{})}
		must.Fail(t, im.Run(t.Context(), []string{"-"}), "wait for the collector: 0 of 1 calls are stored, none within the last 1m0s")
	})
}

// The events, the report and the messages do not depend on the number of cores.
func TestCores(t *testing.T) {
	files := []string{recordedtest.Path(t, recordedtest.Exchanges), recordedtest.Path(t, recordedtest.Conversations)} // the latter has no exchanges
	output := func(cores int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		f := &fake{}
		var b bytes.Buffer
		im := &Importer{
			Config: recorded.Config{Service: "imported", Instance: "i"}, Publisher: f, Stdin: strings.NewReader(fmt.Sprintf(exchange, 1) + "{"),
			Progress: terminal.NewProgress(&b),
		}
		must.Do(t, im.Run(t.Context(), append(files, "-")))
		im.Report.Seconds = 0
		must.Do(t, errors.Join(im.Report.Write(&b, command.JSON), json.NewEncoder(&b).Encode(f.events)))
		return b.Bytes()
	}
	want := output(1)
	if got := output(5); !bytes.Equal(got, want) || len(want) < 10<<20 {
		t.Errorf("%d bytes on 5 cores differ from %d on one", len(got), len(want))
	}
}

// discard is a Publisher without a server.
type discard struct{}

func (discard) Publish(_ context.Context, e *event.Event) error { e.Encode(); return nil }
func (discard) Flush(context.Context) error                     { return nil }

// BenchmarkImport measures an import without the server: reading, parsing and encoding.
func BenchmarkImport(b *testing.B) {
	var text bytes.Buffer
	recordedtest.Lines(b, recordedtest.Exchanges, func(_ int, line []byte) { text.Write(append(line, '\n')) })
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		im := &Importer{Publisher: discard{}, Stdin: bytes.NewReader(text.Bytes()), Progress: terminal.NewProgress(&bytes.Buffer{})}
		must.Do(b, im.Run(b.Context(), []string{"-"}))
	}
}

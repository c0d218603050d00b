package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/importer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// defects writes a file of traffic with findings: tool calls lost on save, rejected and accepted; a turn before the one it
// follows; a repeated line; a body in parts; invalid lines.
func defects(t *testing.T) (file string, exchanges int) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	type object = map[string]any
	call := func(id string) []object {
		return []object{{"id": id, "type": "function", "function": object{"name": "read_file", "arguments": "{}"}}}
	}
	add := func(url string, status int, answer object, history ...object) {
		exchanges++
		x := object{
			"url": url, "request": object{"model": "m", "messages": history}, "status": status, "response": answer,
			"n": exchanges, "conversation": fmt.Sprintf("c%d", exchanges/2),
		}
		if exchanges > 10 {
			delete(x, "conversation")
		}
		must.Do(t, enc.Encode(x))
	}
	user := object{"role": "user", "content": "read config.py"}
	for i := range 20 {
		id := fmt.Sprintf("call_%024d", i)
		asked := object{"choices": []object{{"message": object{"role": "assistant", "content": nil, "tool_calls": call(id)}}}}
		lost := []object{user, {"role": "assistant", "content": ""}, {"role": "tool", "tool_call_id": id, "content": "PORT=80"}}
		refused := object{"error": object{"message": "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"}}
		switch i % 3 {
		case 0:
			add("https://api.deepseek.com/chat/completions", 200, asked, user)
			add("https://api.deepseek.com/chat/completions", 400, refused, lost...)
		case 1: // accepted
			add("http://localhost:11434/v1/chat/completions", 200, asked, user)
			add("http://localhost:11434/v1/chat/completions", 200, object{"choices": []object{}}, lost...)
		case 2: // the wrong order
			add("https://api.deepseek.com/chat/completions", 400, refused, lost...)
			add("https://api.deepseek.com/chat/completions", 200, asked, user)
		}
	}
	add("https://api.deepseek.com/chat/completions", 200, object{}, object{"role": "user", "content": strings.Repeat("long ", 300<<10)})
	lines := bytes.SplitAfter(b.Bytes(), []byte("\n"))
	b.Write(lines[3])
	b.WriteString("{\"request\":\n[]\n\n{\"url\":\"https://api.openai.com\"}\n")
	file = filetest.Temp(t, "defects.jsonl", b.Bytes())
	return file, exchanges
}

// unzipped returns an uncompressed copy of the recorded exchanges.
func unzipped(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) { b.Write(append(line, '\n')) })
	path := filetest.Temp(t, "exchanges.jsonl", b.Bytes())
	return path
}

// Every readable line of real traffic becomes one row. Importing it again, into the same collector and after a restart, changes
// no row of any view except for the instance. No tally counts it.
func TestImport(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	plain, exchangesFile := unzipped(t), recordedtest.Path(t, recordedtest.Exchanges)
	made, n := defects(t)
	up := &upProcess{dir: t.TempDir(), port: freePort(t)}
	up.start(t)
	defer func() { up.kill(t) }()
	sink := up.open(t)
	defer func() { sink.Close() }()

	report := importFiles(t, up, nil, exchangesFile, made)
	want := importer.Report{
		Files: 2, Records: 3039 + n + 4, Exchanges: 3039 + n, Untimed: report.Untimed, Bytes: report.Bytes, Seconds: report.Seconds,
		Skipped: map[recorded.Reason]int{"duplicate": 1, recorded.NotJSON: 2, recorded.NotExchange: 1}, Stored: report.Stored, Findings: report.Findings,
	}
	must.Agree(t, cmp.Diff(want, report), "report")
	if *report.Stored != uint64(report.Exchanges) || report.Findings["reject"] == 0 || report.Findings["lenient"] == 0 {
		t.Errorf("stored %d of %d, findings %v", *report.Stored, report.Exchanges, report.Findings)
	}
	if stdout, stderr, code := runCommand(t, "", "import", "--nats-url", up.collectorURL(), "--data-dir", up.dir, "--wait=false", "-"); code != command.ExitNothing || !strings.Contains(stderr, "-: no records") {
		t.Errorf("import of nothing: exit code %d\n%s%s", code, stdout, stderr)
	}
	first := snapshot(t, sink)
	for dialect, count := range groups(t, sink, "SELECT dialect || '/' || variant, count() FROM exchanges_final GROUP BY 1") {
		t.Logf("%-28s %5d", dialect, count)
	}
	t.Logf("%.1f MB in %.1f s, %.1f MB/s from file to stored; findings %v", float64(report.Bytes)/1e6, report.Seconds, float64(report.Bytes)/1e6/report.Seconds, report.Findings)
	accepted := groups(t, sink, `SELECT f.rule_id, count() FROM findings_final f JOIN exchanges_final e ON e.exchange_id = f.exchange_id
		WHERE f.severity = 'reject' AND (e.status BETWEEN 200 AND 299 OR f.status BETWEEN 200 AND 299) GROUP BY 1`)
	must.Equal(t, len(accepted), 0, "reject findings on accepted requests: %v", accepted)

	in := must.Get(os.Open(plain))(t)
	defer in.Close()
	importFiles(t, up, in, "-", made)
	must.Agree(t, cmp.Diff(first, snapshot(t, sink)), "imported again")
	sink.Close()
	up.kill(t)
	up.start(t)
	sink = up.open(t)
	importFiles(t, up, nil, exchangesFile, made)
	must.Agree(t, cmp.Diff(first, snapshot(t, sink)), "imported again after a restart")
	if counted := tallied(t, up); len(counted) > 0 {
		t.Errorf("counted in tallies: %v", counted)
	}
}

// importFiles runs llmtap import on up. The file of defects contains unreadable lines, so the exit code is 2.
func importFiles(t *testing.T, up *upProcess, stdin io.Reader, files ...string) importer.Report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append([]string{"import", "--nats-url", up.collectorURL(), "--data-dir", up.dir, "--format", "json"}, files...)
	err := run(t.Context(), args, stdin, &stdout, &stderr, func(string) string { return "" })
	if code := command.Report(err, &stderr); code != command.ExitBadInput || !strings.Contains(stderr.String(), "defects.jsonl:43: not a JSON object") {
		t.Fatalf("exit code %d\n%s\ncollector:\n%s", code, &stderr, &up.stderr)
	}
	var r importer.Report
	must.Do(t, json.Unmarshal(stdout.Bytes(), &r), &stdout)
	return r
}

// collectorURL returns the URL of NATS with the token of collectors; url returns that of hooks.
func (u *upProcess) collectorURL() string {
	return fmt.Sprintf("nats://%s@127.0.0.1:%d", collectortest.CollectorToken, u.port)
}

func (u *upProcess) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", u.port) }

// snapshot returns the rows of the final views without the columns that a repeated import changes.
func snapshot(t *testing.T, sink *clickhouse.Sink) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for table, except := range map[string]string{
		"exchanges": "seq, stored_at, instance", "findings": "seq, stored_at", "tool_calls": "seq, stored_at", "alerts": "version",
	} {
		for row := range groups(t, sink, fmt.Sprintf("SELECT toString(tuple(* EXCEPT (%s))), count() FROM %s_final GROUP BY 1", except, table)) {
			all[table+" "+row]++
		}
		all[table] = groups(t, sink, fmt.Sprintf("SELECT '', count() FROM %s_final", table))[""]
	}
	return all
}

// tallied returns the counts of the tally stream by metric.
func tallied(t *testing.T, up *upProcess) map[string]uint64 {
	t.Helper()
	cfg := jetstream.Default()
	cfg.URL = up.collectorURL()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	conn := must.Get(jetstream.Connect(ctx, cfg, nil, nil))(t)
	defer conn.Close()
	counted, seen, done := map[string]uint64{}, 0, errors.New("caught up")
	err := conn.ReadTallies(ctx, func(payload []byte, _ uint64, caughtUp bool) error {
		var tally analyzer.Tally
		if err := json.Unmarshal(payload, &tally); err != nil {
			return err
		}
		seen++
		for _, c := range tally.Counts {
			counted[c.Metric] += c.N
		}
		if caughtUp {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || seen == 0 {
		t.Errorf("read %d tallies: %v", seen, err)
	}
	return counted
}

//go:build linux

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unsafe"

	"golang.org/x/term"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// hostile is text that commands a terminal: title, clear screen, color, cursor, C1, delete, and directions of text.
const hostile = "\x1b]0;OWNED\a\x1b[2J\x1b[31mEVIL\r\b\x7f\u009b2J\u202eabc\u2066\u200e\u061c\u2029=1+1"

// ownControls are what llmtap itself may write to a terminal: colors, and the status line of Progress.
var ownControls = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33)m|\r\x1b\[K`)

// onTerminal runs a command whose standard output and error are a terminal, and returns what it wrote there.
func (c *commandTest) onTerminal(stdin string, args ...string) string {
	c.t.Helper()
	primary := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(c.t)
	defer primary.Close()
	var n, unlock int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCGPTN: &n, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, primary.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			c.t.Fatal(errno)
		}
	}
	tty := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0))(c.t)
	if _, err := term.MakeRaw(int(tty.Fd())); err != nil { // else \n is \r\n
		c.t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(primary) // EIO is the end of a terminal
		written <- b.String()
	}()
	env := map[string]string{"TERM": "xterm", "COLUMNS": "120"}
	err := run(c.t.Context(), args, strings.NewReader(stdin), tty, tty, func(k string) string { return env[k] })
	command.Report(err, tty)
	tty.Close()
	return <-written
}

// checkClean fails if out has a control character that is not ours, or none of the hostile text.
func checkClean(t *testing.T, name, out string, shows bool) {
	t.Helper()
	if strings.Contains(out, "\x1b[31mEVIL") {
		t.Errorf("%s: a color of the text", name)
	}
	for i, r := range ownControls.ReplaceAllString(out, "") {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			t.Errorf("%s: %U after %d bytes in %q", name, r, i, out[:min(len(out), 2000)])
			break
		}
	}
	if shows && !strings.Contains(out, "EVIL") {
		t.Errorf("%s: the text is not shown:\n%s", name, out)
	}
}

// Whatever agents, models and providers send, no command writes it to a terminal as a command or direction of text. In JSON, and
// in CSV that is not for a terminal, it stays what it was.
func TestHostileTerminal(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	c := newCommandTest(t)
	quote := func(s string) string {
		b := must.Get(json.Marshal(s))(t)
		return string(b)
	}
	evil := quote(hostile)
	labels := event.Labels{
		Service: "shop" + hostile, ServiceVersion: "1" + hostile, Environment: hostile, Agent: hostile, Stage: "plan" + hostile, Conversation: "order" + hostile,
		Run: hostile, User: hostile,
	}
	user := `{"role":"user","content":` + evil + `}`
	called := `{"role":"assistant","content":` + evil + `,"tool_calls":[{"id":"call_1` + evil[1:len(evil)-1] + `","type":"function","function":{"name":` + evil +
		`,"arguments":` + quote(`{"x":`+evil+`}`) + `}}]}`
	reply := `{"role":"tool","tool_call_id":"call_1` + evil[1:len(evil)-1] + `","content":` + evil + `}`
	request := func(messages ...string) string {
		return `{"model":` + evil + `,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	refused := `{"error":{"message":"Messages with role 'tool' must be a response ` + evil[1:len(evil)-1] + `","type":` + evil + `,"code":` + evil + `}}`
	lost := request(user, `{"role":"assistant","content":`+evil+`}`, reply)
	c.sendHostile(labels, 200, request(user), `{"id":"x","model":`+evil+`,"choices":[{"index":0,"message":`+called+`,"finish_reason":`+evil+`}]}`)
	broken := c.sendHostile(labels, 400, lost, refused)
	c.sendHostile(labels, 400, request(user), `{"error":{"message":`+evil+`}}`)
	c.waitStored(3)

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		filetest.Write(t, path, text)
		return path
	}
	history := file("a\x1b[2J\u202eEVIL.json", lost)
	exchange := file("x.jsonl", `{"id":`+evil+`,"request":`+lost+`,"response":`+refused+`,"status":400,"url":"https://api.openai.com/v1/chat/completions"}`+"\n")
	rules := file("rules.yaml", "groups: [{name: g, rules: [{alert: Evil, expr: 'sum by (service, stage) (increase(llmtap_failed_calls_total[5m])) > 0', "+
		"labels: {severity: critical}, annotations: {summary: "+terminal.Escape(evil)+"}}]}]\n")

	stored := [][]string{
		{"show", broken},
		{"show", "order" + hostile},
		{"show", "order" + hostile, "--tool", hostile},
		{"show", broken, "--full"},
		{"show", hostile},
		{"explain", "--unknown"},
		{"alerts", "backtest", "--since", "1h", rules},
		{"gate", "--once", "--service", labels.Service, "--version", labels.ServiceVersion},
		{"query", "--sql", "SELECT * FROM exchanges_final"},
		{"query", "--sql", "SELECT * FROM findings_final"},
		{"query", "--sql", "SELECT throwIf(1, '" + hostile + "')"},
		{"forget", "--conversation", hostile, "--dry-run"},
		{"doctor"},
		{"schema", "status"},
	}
	for _, name := range queries.Names() {
		q := must.Get(queries.Get(name))(t)
		args := []string{"query", name}
		for _, p := range q.Parameters {
			if p.Required {
				args = append(args, "--"+p.Name, map[string]string{"conversation_id": labels.Conversation, "service": labels.Service, "tool": hostile, "text": "EVIL"}[p.Name])
			}
		}
		stored = append(stored, args)
	}
	formats := map[string][]string{
		"show": {"json", "jsonl", "csv", "body"}, "query": {"json", "jsonl", "csv"}, "explain": {"json", "jsonl", "csv"}, "alerts": {"json"}, "gate": {"json"}, "doctor": {"json"},
	}
	for _, args := range stored {
		for _, format := range append([]string{"text"}, formats[args[0]]...) {
			full := append(slices.Clone(args), "--data-dir", c.up.dir)
			if format != "text" {
				full = append(full, "--format", format)
			}
			out := c.onTerminal("", full...)
			checkClean(t, fmt.Sprintf("%.80q", full), out, args[0] == "show" && format != "body" || args[0] == "gate" || slices.Contains(args, "--sql") || slices.Contains(args, "backtest"))
		}
	}

	for _, args := range [][]string{
		{"lint", history},
		{"lint", "--format", "json", history},
		{"lint", "--format", "github", history},
		{"lint", "--format", "sarif", history},
		{"lint", exchange, "-"},
		{"explain", exchange},
		{"explain", "--format", "csv", exchange},
		{"explain", "--format", "jsonl", exchange},
		{"explain", "Error 400: " + hostile},
		{"repair", history},
		{"repair", "--format", "patch", history},
		{"repair", "--format", "text", history},
		{"repair", history + hostile},
		{"repair", "--conversation", "order" + hostile, "--data-dir", c.up.dir},
		{"show", broken, "--as-test", "pytest", "--data-dir", c.up.dir},
		{"show", broken, "--as-test", "go", "--data-dir", c.up.dir},
		{"alerts", "check", rules},
		{"alerts", "test", rules},
		{"config", hostile},
		{hostile},
		{"lint", hostile},
		{"query", hostile},
		{"import", "--nats-url", c.up.collectorURL(), "--data-dir", c.up.dir, exchange},
	} {
		checkClean(t, fmt.Sprintf("%.80q", args), c.onTerminal(`{"messages":`+evil+"}\n"+hostile, args...), false)
	}
	checkClean(t, "tail", tailUntil(t, c.up.dir, "EVIL"), true)
	checkClean(t, "mcp", c.onTerminal(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":`+evil+`,"arguments":{}}}
`, "mcp", "--data-dir", c.up.dir), false)

	// Data is exact in a pipe.
	var row struct{ Model, Service string }
	out, errs, _ := c.llmtap("query", "--sql", "SELECT model AS Model, service AS Service FROM exchanges_final WHERE exchange_id = '"+broken+"'", "--format", "jsonl")
	if err := json.Unmarshal([]byte(out), &row); err != nil || row.Model != hostile || row.Service != labels.Service {
		t.Errorf("%v: %q\n%s", err, row, errs)
	}
	checkClean(t, "JSON in a pipe", out, true)
	out, errs, _ = c.llmtap("query", "--sql", "SELECT model, service FROM exchanges_final WHERE exchange_id = '"+broken+"'", "--format", "csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(all) != 2 || all[1][0] != hostile || all[1][1] != labels.Service {
		t.Errorf("%v: %q\n%s", err, all, errs)
	}
	if out, _, _ = c.llmtap("show", broken, "--format", "body"); compact(t, out) != compact(t, lost) {
		t.Errorf("body: %q, want %q", out, lost)
	}
	out, _, _ = runCommand(t, "", "repair", "--severity", "reject", "--dialect", "openai_chat/openai", file("fine.json", request(user)))
	must.Equal(t, out, request(user)+"\n", "repair")
}

// sendHostile publishes an exchange with these labels and returns its id.
func (c *commandTest) sendHostile(labels event.Labels, status int, request, answer string) string {
	c.t.Helper()
	at := time.Now().Add(-time.Minute)
	return c.exchange(event.Event{
		Time: at, Capture: event.CaptureFull, Instance: hostile, Attrs: map[string]string{"tenant": hostile, hostile: "x"}, Labels: labels, URL: chatURL,
	}, event.Event{Time: at, Status: status, Duration: time.Second, Error: hostile, ProviderRequestID: hostile}, request, answer)
}

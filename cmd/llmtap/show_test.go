package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A commandTest publishes exchanges to a collector and runs commands on its data directory.
type commandTest struct {
	t      *testing.T
	up     *upProcess
	conn   *jetstream.Conn
	pub    *jetstream.Publisher
	n      int
	bodies map[string]string // requests by exchange
	at     time.Time
}

func newCommandTest(t *testing.T, flags ...string) *commandTest {
	t.Helper()
	needClickHouse(t)
	up := startUp(t, flags...)
	up.ready(t)
	cfg := jetstream.Default()
	cfg.URL = up.collectorURL()
	conn := must.Get(jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	t.Cleanup(conn.Close)
	return &commandTest{t: t, up: up, conn: conn, pub: conn.NewPublisher(0), bodies: map[string]string{}, at: time.Now().UTC().Add(-time.Minute)}
}

// publish publishes an exchange of the planner and returns its id.
func (c *commandTest) publish(labels event.Labels, url, capture string, status int, request, answer string) string {
	c.t.Helper()
	labels.Service, labels.ServiceVersion, labels.Stage = "planner-api", "1.5.0", "planner"
	c.at = c.at.Add(20 * time.Millisecond)
	base := event.Event{Time: c.at, Capture: capture, Instance: "3f9c1a7be204", Labels: labels, URL: url}
	id := c.exchange(base, event.Event{Time: c.at.Add(10 * time.Millisecond), Status: status}, request, answer)
	c.bodies[id] = request
	return id
}

// exchange publishes an exchange and returns its id. The events have the labels, attributes, instance and capture mode of base, whose
// URL is that of the request; end has what only the response has.
func (c *commandTest) exchange(base, end event.Event, request, answer string) string {
	c.t.Helper()
	c.n++
	id := fmt.Sprintf("019aa0b0-%04x-7%03x-8000-00000000cafe", c.n&0xffff, c.n>>16)
	base.Kind, base.Method, base.Body = event.Request, "POST", []byte(request)
	end.Kind, end.Capture, end.Instance, end.Labels, end.Attrs = event.Response, base.Capture, base.Instance, base.Labels, base.Attrs
	end.ContentType, end.Body = "application/json", []byte(answer)
	for _, ev := range []event.Event{base, end} {
		ev.Exchange, ev.Origin, ev.Seq, ev.BodyBytes = id, event.OriginHook, uint64(2*c.n)+uint64(ev.Kind), len(ev.Body)
		for m := range ev.Messages(event.PartBytes) {
			must.Do(c.t, c.pub.Publish(c.t.Context(), m))
		}
	}
	return id
}

// waitStored waits until n exchanges are stored.
func (c *commandTest) waitStored(n int) {
	c.t.Helper()
	must.Do(c.t, c.pub.Flush(c.t.Context()))
	rows := c.up.rows()
	defer rows.close()
	waitFor(c.t, c.up, fmt.Sprintf("%d stored exchanges", n), func() bool {
		res, err := rows.query(c.t.Context(), "SELECT uniqExact(exchange_id) FROM exchanges")
		return err == nil && res.Rows[0][0].(uint64) >= uint64(n)
	})
}

// llmtap runs a command.
func (c *commandTest) llmtap(args ...string) (stdout, stderr string, code int) {
	return runCommand(c.t, "", append(args, "--data-dir", c.up.dir)...)
}

// checkBody fails unless llmtap show prints the request of an exchange.
func (c *commandTest) checkBody(id string) {
	c.t.Helper()
	out, errs, code := c.llmtap("show", id, "--format", "body")
	if want := compact(c.t, c.bodies[id]); code != command.ExitOK || compact(c.t, out) != want {
		c.t.Errorf("exchange %s: exit code %d %s\n got %s\nwant %s", id, code, errs, out, want)
	}
}

// A showTest sends conversations.
type showTest struct{ *commandTest }

func (s showTest) send(conversation, url, capture string, status int, request, answer string) string {
	s.t.Helper()
	return s.publish(event.Labels{Conversation: conversation}, url, capture, status, request, answer)
}

func (s showTest) show(args ...string) (stdout, stderr string, code int) {
	return s.llmtap(append([]string{"show"}, args...)...)
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, json.Compact(&b, []byte(s)), s)
	return b.String()
}

const (
	chatURL      = "https://api.openai.com/v1/chat/completions"
	responsesURL = "https://api.openai.com/v1/responses"
	anthropicURL = "https://api.anthropic.com/v1/messages"
	geminiURL    = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent"
	bedrockURL   = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-v1:0/converse"
)

// sendTurns sends a conversation turn by turn: each request contains two more of the messages.
func (s showTest) sendTurns(conversation, url, capture, form, answer string, all ...string) {
	for n := 1; n <= len(all); n += 2 {
		s.send(conversation, url, capture, 200, fmt.Sprintf(form, strings.Join(all[:n], ", ")), answer)
	}
}

// Requests of every dialect are reassembled after they passed a collector, also after it was killed.
func TestShow(t *testing.T) {
	t.Parallel()
	s := showTest{newCommandTest(t)}
	up := s.up
	const (
		sys, user = `{"role":"system","content":"You plan."}`, `{"role":"user","content":"Which port? <b>&amp;</b> 世界"}`
		called    = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_8Kq2mVx0","type":"function","function":{"name":"read","arguments":"{}"}}]}`
		reply     = `{"role":"tool","tool_call_id":"call_8Kq2mVx0","content":"PORT = 80"}`
		said      = `{"role":"assistant","content":"It is 80."}`
		thanks    = `{"role":"user","content":"Thanks. My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH."}`
		form      = `{"model":"gpt-4.1", "messages": [ %s ], "tools":[{"type":"function","function":{"name":"read"}}]}`
		ok        = `{"id":"a","choices":[{"message":{"role":"assistant","content":"It is 80."},"finish_reason":"stop"}]}`
	)
	s.sendTurns("chat", chatURL, event.CaptureFull, form, ok, user, called, reply, said, `{"role":"user","content":"Thanks."}`)
	all := sys + "," + user + "," + called + "," + reply
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+","+said), ok)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+`,{"role":"assistant","content":"No."}`), ok)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, `{"role":"system","content":"You plan. It is 8:01."},`+user+","+called+","+reply), ok)
	s.sendTurns("responses", responsesURL, event.CaptureFull, `{"model":"gpt-5","input":[%s],"instructions":"Plan."}`, `{"id":"r","output":[]}`,
		user, `{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"80"}`)
	s.send("text", responsesURL, event.CaptureFull, 200, `{"model":"gpt-5","input":"Which port?"}`, `{"id":"r","output":[]}`)
	s.sendTurns("gemini", geminiURL, event.CaptureFull, `{"contents":[%s],"systemInstruction":{"parts":[{"text":"Plan."}]}}`, `{"candidates":[]}`,
		`{"role":"user","parts":[{"text":"Which port?"}]}`, `{"role":"model","parts":[{"functionCall":{"name":"read","args":{}}}]}`, `{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}`)
	s.sendTurns("bedrock", bedrockURL, event.CaptureFull, `{"system":[{"text":"Plan."}],"messages":[%s]}`, `{"output":{}}`,
		`{"role":"user","content":[{"text":"Which port?"}]}`, `{"role":"assistant","content":[{"text":"80"}]}`, `{"role":"user","content":[{"text":"Sure?"}]}`)
	for n := range 5 { // the cache mark is on the last message
		var msgs []string
		for i := range n + 1 {
			mark := ""
			if i == n {
				mark = `,"cache_control":{"type":"ephemeral"}`
			}
			msgs = append(msgs, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"question %d"%s}]}`, i, mark), `{"role":"assistant","content":[{"type":"text","text":"Yes."}]}`)
		}
		s.send("anthropic", anthropicURL, event.CaptureFull, 200,
			`{"model":"claude-sonnet-4-5","max_tokens":9,"system":[{"type":"text","text":"Plan."}],"messages":[`+strings.Join(msgs[:2*n+1], ",")+`]}`, `{"type":"message","role":"assistant","content":[{"type":"text","text":"Yes."}]}`)
	}
	shaped := string(shape.New([]byte("k")).Request(wire.OpenAIChat, fmt.Appendf(nil, form, all), 1<<20))
	s.send("shape", chatURL, event.CaptureShape, 200, shaped, `{"choices":[]}`)
	secret := s.send("secret", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, user+","+said+","+thanks), ok)
	broken := s.send("fork", chatURL, event.CaptureFull, 400, fmt.Sprintf(form, sys+","+user+`,{"role":"assistant","content":""},`+reply),
		`{"error":{"message":"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.","type":"invalid_request_error"}}`)
	none := s.send("none", chatURL, event.CaptureNone, 200, "", "")
	s.bodies[secret] = string(redact.Append(nil, []byte(s.bodies[secret])))
	if strings.Contains(s.bodies[secret], "0123456789ABC") {
		t.Error("the key is not redacted")
	}
	s.waitStored(s.n)

	// lint reads what show writes as JSON lines, and finds the same fault in the exchange and in its conversation.
	for id, line := range map[string]string{broken: "1", "fork": "4"} {
		lines, errs, _ := s.show(id, "--format", "jsonl")
		out, more, code := runCommand(t, lines, "lint", "-")
		if code != command.ExitFailed || !strings.Contains(out, "-:"+line+"  openai_chat/openai\n  orphan_tool_reply (rejected with 400): message 3") {
			t.Errorf("lint of %s: exit code %d\n%s%s%s", id, code, errs, out, more)
		}
	}

	for name, c := range map[string]struct {
		args []string
		code int
		want []string // in stdout and stderr
	}{
		"invalid message": {[]string{broken}, command.ExitOK, []string{
			"cause         orphan_tool_reply", "\n  >   3 tool", "orphan_tool_reply (rejected) in message 3", "fix  ", "messages (4)", "--format body", "preceeding", "first seen in 1.5.0, no clean version known",
		}},
		"JSON":                   {[]string{broken, "--format", "json"}, command.ExitOK, []string{`"rule_id": "orphan_tool_reply"`, `"role": "tool"`, `"cause": "orphan_tool_reply"`}},
		"conversation":           {[]string{"fork"}, command.ExitOK, []string{"4 calls", "4 messages unchanged", "orphan_tool_reply (rejected)", "calls read (call_8Kq2mVx0)"}},
		"conversation as JSON":   {[]string{"fork", "--format", "json"}, command.ExitOK, []string{`"kept": 4`, `"index": 4`}},
		"cache mark":             {[]string{"anthropic"}, command.ExitOK, []string{"7 messages unchanged"}},
		"no bodies":              {[]string{none}, command.ExitFailed, []string{"NOT STORED", "captured as none"}},
		"body not stored":        {[]string{none, "--format", "body"}, command.ExitFailed, []string{"captured as none"}},
		"body of a conversation": {[]string{"fork", "--format", "body"}, command.ExitBadInput, []string{"requires a call"}},
		"no ID":                  {nil, command.ExitBadInput, []string{"missing argument ID"}},
		"two IDs":                {[]string{"a", "b"}, command.ExitBadInput, []string{`unexpected argument "b"`}},
		"unknown format":         {[]string{"a", "--format", "yaml"}, command.ExitBadInput, []string{"must be one of text, json, jsonl, csv, body"}},
		"redacted text":          {[]string{secret}, command.ExitOK, []string{"Thanks. My key is"}},
	} {
		out, errs, code := s.show(c.args...)
		must.Equal(t, code, c.code, "%s: exit code", name)
		wantAll(t, name, out+errs, c.want...)
	}

	// The conversations continue after a restart.
	up.kill(t)
	up.start(t)
	up.ready(t)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+","+said+","+user), ok)
	s.send("chat", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, user+","+called+","+reply+","+said+`,{"role":"user","content":"Thanks."},`+said), ok)
	s.waitStored(s.n)
	for _, id := range slices.Sorted(maps.Keys(s.bodies)) {
		if id != none {
			s.checkBody(id)
		}
	}

	// Expired messages are reported.
	rows := up.rows()
	defer rows.close()
	execute(t, rows, "TRUNCATE TABLE llmtap.messages")
	if out, errs, code := s.show(broken); code != command.ExitFailed || !strings.Contains(out, "older than the retention") || !strings.Contains(errs, "incomplete") {
		t.Errorf("exit code %d %s\n%s", code, errs, out)
	}
}

var showAll = flag.Bool("show-all", false, "TestShowImported checks all recorded exchanges instead of every fiftieth")

// Every recorded request of a supported dialect is reassembled after an import, except for redacted values. A request takes
// five queries, so by default only every fiftieth is checked.
//
//	go test ./cmd/llmtap -run TestShowImported -show-all -v
func TestShowImported(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	plain := unzipped(t)
	up := startUp(t)
	sink := up.open(t)
	succeed(t, "import", "--nats-url", up.collectorURL(), "--data-dir", up.dir, plain)
	mask := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(t)
	store, complete, redacted := show.Store{Q: sink}, 0, 0
	n, unstored := 0, map[string]int{}
	eachRecorded(t, plain, func(x *recorded.Exchange) {
		if n++; n%50 != 0 && !*showAll {
			return
		}
		e := must.Get(store.Exchange(t.Context(), x.ID.String()))(t)
		body, ok := e.Body()
		if !ok {
			if unstored[e.Dialect]++; e.Dialect != "other" && json.Valid(x.Request.Body) {
				t.Errorf("%s (%s): %v", x.ID, e.Dialect, e.Missing)
			}
			return
		}
		complete++
		var want bytes.Buffer
		if json.Compact(&want, x.Request.Body) != nil {
			return // not JSON, stored unchanged
		}
		plain := want.String()
		if wanted := string(mask.Append(nil, want.Bytes())); compact(t, body) != wanted {
			t.Errorf("%s (%s):\n got %.2000s\nwant %.2000s", x.ID, e.Dialect, body, wanted)
		} else if wanted != plain {
			redacted++
		}
	})
	if complete < n/100 {
		t.Errorf("only %d of %d are complete", complete, n)
	}
	t.Logf("%d requests reassembled, %d of them redacted; not stored: %v", complete, redacted, unstored)
}

// eachRecorded calls f once for each exchange of a file.
func eachRecorded(t *testing.T, file string, f func(*recorded.Exchange)) {
	t.Helper()
	in := must.Get(os.Open(file))(t)
	defer in.Close()
	r := must.Get(recorded.NewReader(in, recorded.Config{Name: file}))(t)
	seen := map[string]bool{}
	for {
		x, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && !seen[x.ID.String()] {
			seen[x.ID.String()] = true
			f(x)
		}
	}
}

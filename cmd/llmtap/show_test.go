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
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/shape"
	"github.com/llmtap/llmtap/ingest/wire"
)

// shown publishes exchanges to a collector and asks llmtap show for them.
type shown struct {
	t      *testing.T
	up     *upProcess
	pub    *jetstream.Publisher
	n      int
	bodies map[string]string // of requests, by exchange
	at     time.Time
}

func newShown(t *testing.T, up *upProcess) *shown {
	t.Helper()
	cfg := jetstream.Default()
	cfg.URL = up.url()
	conn, err := jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &shown{t: t, up: up, pub: conn.NewPublisher(0), bodies: map[string]string{}, at: time.Now().UTC().Add(-time.Minute)}
}

// send publishes an exchange and returns its id.
func (s *shown) send(conversation, url, capture string, status int, request, answer string) string {
	s.t.Helper()
	s.n++
	id := fmt.Sprintf("019aa0b0-%04x-7000-8000-00000000cafe", s.n)
	for _, k := range []event.Kind{event.Request, event.Response} {
		s.at = s.at.Add(10 * time.Millisecond)
		ev := event.Event{
			Kind: k, Exchange: id, Time: s.at, Origin: event.OriginHook, Capture: capture, Instance: "3f9c1a7be204", Seq: uint64(2*s.n) + uint64(k),
			Labels: event.Labels{Service: "planner-api", ServiceVersion: "1.5.0", Stage: "planner", Conversation: conversation},
		}
		if ev.URL, ev.Method, ev.Body = url, "POST", []byte(request); k == event.Response {
			ev.URL, ev.Method, ev.Status, ev.ContentType, ev.Body = "", "", status, "application/json", []byte(answer)
		}
		ev.BodyBytes = len(ev.Body)
		for m := range ev.Messages() {
			if err := s.pub.Publish(s.t.Context(), m); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.bodies[id] = request
	return id
}

// stored waits until all that was sent is stored.
func (s *shown) stored() {
	s.t.Helper()
	if err := s.pub.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	rows := s.up.rows()
	defer rows.close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := rows.query(s.t.Context(), "SELECT uniqExact(exchange_id) FROM exchanges")
		if err == nil && res.Rows[0][0].(uint64) >= uint64(s.n) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d exchanges are not stored: %v %v\n%s", s.n, res, err, s.up.stderr.String())
		}
	}
}

// show runs llmtap show and returns its output, its complaint and its exit code.
func (s *shown) show(args ...string) (stdout, stderr string, code int) {
	var out, complaint bytes.Buffer
	err := run(s.t.Context(), append([]string{"show", "--data-dir", s.up.dir}, args...), nil, &out, &complaint, func(string) string { return "" })
	code = command.Report(err, &complaint)
	return out.String(), complaint.String(), code
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Errorf("%v in %s", err, s)
	}
	return b.String()
}

const (
	chatURL      = "https://api.openai.com/v1/chat/completions"
	responsesURL = "https://api.openai.com/v1/responses"
	anthropicURL = "https://api.anthropic.com/v1/messages"
	geminiURL    = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent"
	bedrockURL   = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-v1:0/converse"
)

// growing sends a conversation turn by turn: each request holds the first so many of all.
func (s *shown) growing(conversation, url, capture, form, answer string, all ...string) {
	for n := 1; n <= len(all); n += 2 {
		s.send(conversation, url, capture, 200, fmt.Sprintf(form, strings.Join(all[:n], ", ")), answer)
	}
}

// Whatever is sent, in any dialect, can be put together again after it went through a collector, and after that was killed.
func TestShow(t *testing.T) {
	needClickHouse(t)
	up := startUp(t)
	up.ready(t)
	s := newShown(t, up)
	const (
		sys, user = `{"role":"system","content":"You plan."}`, `{"role":"user","content":"Which port? <b>&amp;</b> 世界"}`
		called    = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_8Kq2mVx0","type":"function","function":{"name":"read","arguments":"{}"}}]}`
		reply     = `{"role":"tool","tool_call_id":"call_8Kq2mVx0","content":"PORT = 80"}`
		said      = `{"role":"assistant","content":"It is 80."}`
		thanks    = `{"role":"user","content":"Thanks. My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH."}`
		form      = `{"model":"gpt-4.1", "messages": [ %s ], "tools":[{"type":"function","function":{"name":"read"}}]}`
		ok        = `{"id":"a","choices":[{"message":{"role":"assistant","content":"It is 80."},"finish_reason":"stop"}]}`
	)
	s.growing("chat", chatURL, event.CaptureFull, form, ok, user, called, reply, said, `{"role":"user","content":"Thanks."}`)
	all := sys + "," + user + "," + called + "," + reply
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+","+said), ok)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+`,{"role":"assistant","content":"No."}`), ok)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, `{"role":"system","content":"You plan. It is 8:01."},`+user+","+called+","+reply), ok)
	s.growing("responses", responsesURL, event.CaptureFull, `{"model":"gpt-5","input":[%s],"instructions":"Plan."}`, `{"id":"r","output":[]}`,
		user, `{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"80"}`)
	s.send("text", responsesURL, event.CaptureFull, 200, `{"model":"gpt-5","input":"Which port?"}`, `{"id":"r","output":[]}`)
	s.growing("gemini", geminiURL, event.CaptureFull, `{"contents":[%s],"systemInstruction":{"parts":[{"text":"Plan."}]}}`, `{"candidates":[]}`,
		`{"role":"user","parts":[{"text":"Which port?"}]}`, `{"role":"model","parts":[{"functionCall":{"name":"read","args":{}}}]}`, `{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}`)
	s.growing("bedrock", bedrockURL, event.CaptureFull, `{"system":[{"text":"Plan."}],"messages":[%s]}`, `{"output":{}}`,
		`{"role":"user","content":[{"text":"Which port?"}]}`, `{"role":"assistant","content":[{"text":"80"}]}`, `{"role":"user","content":[{"text":"Sure?"}]}`)
	for n := range 5 { // the mark moves along
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
		t.Error("the key is not masked")
	}
	whole := func(t *testing.T) {
		for _, id := range slices.Sorted(maps.Keys(s.bodies)) {
			if id == none {
				continue
			}
			out, complaint, code := s.show(id, "--format", "body")
			if want := compact(t, s.bodies[id]); code != command.ExitOK || compact(t, out) != want {
				t.Errorf("exchange %s: exit code %d %s\n got %s\nwant %s", id, code, complaint, out, want)
			}
		}
	}
	s.stored()
	whole(t)

	for name, c := range map[string]struct {
		args []string
		code int
		want []string // of output and complaint
	}{
		"the broken message": {[]string{broken}, command.ExitOK, []string{
			"cause orphan_tool_reply", "\n  >   3 tool", "orphan_tool_reply (rejected)", "fix: ", "messages (4)", "--format body", "preceeding", "version 1.5.0",
		}},
		"json":            {[]string{broken, "--format", "json"}, command.ExitOK, []string{`"rule_id": "orphan_tool_reply"`, `"role": "tool"`, `"cause": "orphan_tool_reply"`}},
		"a conversation":  {[]string{"fork"}, command.ExitOK, []string{"4 exchanges", "the first 4 messages as before", "orphan_tool_reply (rejected)", "calls read (call_8Kq2mVx0)"}},
		"its json":        {[]string{"fork", "--format", "json"}, command.ExitOK, []string{`"kept": 4`, `"index": 4`}},
		"the cache mark":  {[]string{"anthropic"}, command.ExitOK, []string{"the first 7 messages as before"}},
		"start of an id":  {[]string{broken[:13]}, command.ExitOK, []string{"exchange " + broken}},
		"start of many":   {[]string{broken[:9]}, command.ExitFailed, []string{"is the start of several ids: 019aa0b0-"}},
		"too short":       {[]string{"019aa0b"}, command.ExitFailed, []string{"too short"}},
		"nothing":         {[]string{"01234567-89ab"}, command.ExitFailed, []string{"nothing stored has this id"}},
		"without bodies":  {[]string{none}, command.ExitFailed, []string{"NOT STORED", "captured as none"}},
		"its body":        {[]string{none, "--format", "body"}, command.ExitFailed, []string{"captured as none"}},
		"body of many":    {[]string{"fork", "--format", "body"}, command.ExitBadInput, []string{"requires an exchange"}},
		"no id":           {nil, command.ExitBadInput, []string{"missing argument ID"}},
		"two ids":         {[]string{"a", "b"}, command.ExitBadInput, []string{`unexpected argument "b"`}},
		"another format":  {[]string{"a", "--format", "yaml"}, command.ExitBadInput, []string{"must be one of text, json, body"}},
		"the masked text": {[]string{secret}, command.ExitOK, []string{"Thanks. My key is"}},
	} {
		out, complaint, code := s.show(c.args...)
		if code != c.code {
			t.Errorf("%s: exit code %d", name, code)
		}
		for _, w := range c.want {
			if !strings.Contains(out+complaint, w) {
				t.Errorf("%s: %q is not in\n%s%s", name, w, out, complaint)
			}
		}
	}

	// After a restart the conversations go on.
	up.kill(t)
	up.start(t)
	up.ready(t)
	s.send("fork", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, all+","+said+","+user), ok)
	s.send("chat", chatURL, event.CaptureFull, 200, fmt.Sprintf(form, user+","+called+","+reply+","+said+`,{"role":"user","content":"Thanks."},`+said), ok)
	s.stored()
	whole(t)

	// What has expired is named.
	rows := up.rows()
	defer rows.close()
	execute(t, rows, "TRUNCATE TABLE llmtap.messages")
	if out, complaint, code := s.show(broken); code != command.ExitFailed || !strings.Contains(out, "older than what is kept") || !strings.Contains(complaint, "not stored as a whole") {
		t.Errorf("exit code %d %s\n%s", code, complaint, out)
	}
}

var showAll = flag.Bool("show-all", false, "TestShowImported shows all recorded exchanges, not every fiftieth")

// Every recorded request of a dialect that is judged is put together again after an import, each message as it was but for
// what is redacted. A request takes five queries, so without the flag every fiftieth is looked at.
//
//	go test ./cmd/llmtap -run TestShowImported -show-all -v
func TestShowImported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long, and the race detector sees nothing new in it")
	}
	needClickHouse(t)
	plain := unzipped(t, exchangesFile)
	up := startUp(t)
	sink := up.open(t)
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"import", "--nats-url", up.url(), "--data-dir", up.dir, plain}, nil, &stdout, &stderr, func(string) string { return "" })
	if code := command.Report(err, &stderr); code != command.ExitOK {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	mask, err := redact.NewRedactor(redact.Config{Mask: redact.Kinds})
	if err != nil {
		t.Fatal(err)
	}
	store, whole, masked := show.Store{Q: sink}, 0, 0
	n, unstored := 0, map[string]int{}
	eachRecorded(t, plain, func(x *recorded.Exchange) {
		if n++; n%50 != 0 && !*showAll {
			return
		}
		e, err := store.Exchange(t.Context(), x.ID.String())
		if err != nil {
			t.Fatal(err)
		}
		body, ok := e.Body()
		if !ok {
			if unstored[e.Dialect]++; e.Dialect != "other" && json.Valid(x.Request.Body) {
				t.Errorf("%s (%s): %v", x.ID, e.Dialect, e.Missing)
			}
			return
		}
		whole++
		var want bytes.Buffer
		if json.Compact(&want, x.Request.Body) != nil {
			return // stored as it is
		}
		plain := want.String()
		if wanted := string(mask.Append(nil, want.Bytes())); compact(t, body) != wanted {
			t.Errorf("%s (%s):\n got %.2000s\nwant %.2000s", x.ID, e.Dialect, body, wanted)
		} else if wanted != plain {
			masked++
		}
	})
	if whole < n/100 {
		t.Errorf("only %d are stored as a whole", whole)
	}
	t.Logf("%d requests are put together again, %d of them masked; not stored: %v", whole, masked, unstored)
}

// eachRecorded calls f with the exchanges of a file, each of them once.
func eachRecorded(t *testing.T, file string, f func(*recorded.Exchange)) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := recorded.NewReader(in, recorded.Config{Name: file})
	if err != nil {
		t.Fatal(err)
	}
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

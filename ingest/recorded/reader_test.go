package recorded

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// read returns the exchanges of a file and its errors as text.
func read(t testing.TB, file string, cfg Config) (all []*Exchange, bad []string) {
	t.Helper()
	cfg.Name, cfg.Instance = "f", "i"
	r, err := NewReader(strings.NewReader(file), cfg)
	if err != nil {
		return nil, []string{err.Error()}
	}
	for {
		x, err := r.Next()
		var rec *RecordError
		switch {
		case errors.Is(err, io.EOF):
			return all, bad
		case errors.As(err, &rec):
			bad = append(bad, string(rec.Reason)+" "+rec.Error())
		case err != nil:
			return all, append(bad, err.Error())
		default:
			all = append(all, x)
		}
	}
}

func one(t testing.TB, line string) *Exchange {
	t.Helper()
	all, bad := read(t, line, Config{Service: "s"})
	if len(all) != 1 || bad != nil {
		t.Fatalf("%s\n%d exchanges, %v", line, len(all), bad)
	}
	return all[0]
}

const line = ` {"id":7, "url":"https://user:pw@api.openai.com:443/v1/chat/completions?api_key=hidden#x", "method":"POST",` +
	` "request": {"model" : "gpt-5","n":1.50, "messages":[{"content":"\u00e9","role":"user"}]} , "status":200,` +
	` "response":{"id" :"r"}, "stream":false, "time":"2026-10-01T08:15:30.123456789+02:00", "duration_ms":1500.25,` +
	` "response_headers":{"Content-Type":"application/json; charset=utf-8","X-Request-ID":["req_1"],"Set-Cookie":"hidden"},` +
	` "service":"checkout","service_version":"1.2","environment":"prod","agent":"planner","stage":"plan","conversation_id":42,"run_id":"r1"} `

func TestLine(t *testing.T) {
	x := one(t, strings.Replace(line, `"run_id":"r1"`, `"run_id":"r1","attributes":{"tenant":"acme","tier":2}`, 1))
	at := time.Date(2026, 10, 1, 6, 15, 30, 123456789, time.UTC)
	base := event.Event{
		Attrs:    map[string]string{"tenant": "acme", "tier": "2"},
		Exchange: x.ID.String(), Instance: "i", Origin: event.OriginImport, Capture: event.CaptureFull, Part: 1, Parts: 1,
		Labels: event.Labels{
			Service: "checkout", ServiceVersion: "1.2", Environment: "prod", Agent: "planner", Stage: "plan", Conversation: "42", Run: "r1",
		},
	}
	q, s := base, base
	q.Kind, q.Time, q.URL, q.Method = event.Request, at, "https://api.openai.com:443/v1/chat/completions", "POST"
	q.ContentType, q.Body = "application/json", []byte(`{"model" : "gpt-5","n":1.50, "messages":[{"content":"\u00e9","role":"user"}]}`)
	s.Kind, s.Time, s.Duration = event.Response, at.Add(1500250*time.Microsecond), 1500250*time.Microsecond
	s.Status, s.ProviderRequestID = 200, "req_1"
	s.ContentType, s.Body = "application/json; charset=utf-8", []byte(`{"id" :"r"}`)
	q.BodyBytes, s.BodyBytes = len(q.Body), len(s.Body)
	must.Agree(t, cmp.Diff([]*event.Event{&q, &s}, []*event.Event{x.Request, x.Response}))
	if x.Source != "f:1" || !x.HasTime {
		t.Errorf("%s, has time: %v", x.Source, x.HasTime)
	}
	for _, e := range []*event.Event{x.Request, x.Response} {
		if h := e.Encode(); strings.Contains(strings.Join(flat(h), " "), "hidden") {
			t.Errorf("secret in %v", h)
		}
		back := must.Get(event.Decode(e.Subject(), e.Encode(), e.Body))(t)
		must.Agree(t, cmp.Diff(e, back), "after encoding and decoding")
	}
}

func flat(h event.Header) (all []string) {
	for _, v := range h {
		all = append(all, v...)
	}
	return all
}

func TestBodies(t *testing.T) {
	f := func(fields, wantType, wantBody string) {
		t.Helper()
		x := one(t, `{"url":"u","request":{},"status":200,`+fields+`}`)
		if got := string(x.Response.Body); got != wantBody || x.Response.ContentType != wantType {
			t.Errorf("%s:\n%q, %q", fields, x.Response.ContentType, got)
		}
	}
	f(`"response":{"a" : 1}`, "application/json", `{"a" : 1}`)
	f(`"response":[1]`, "application/json", `[1]`)
	f(`"response":null`, "", "")
	f(`"response":""`, "", "")
	f(`"response":"upstream connect error"`, "", "upstream connect error")
	f(`"response":"{\"a\":1}\n{\"a\":2}"`, "application/json", "{\"a\":1}\n{\"a\":2}")
	f(`"response":"data: {}\n\n","stream":true`, "text/event-stream", "data: {}\n\n")
	f(`"response":"event: ping\ndata: {}\n\n"`, "text/event-stream", "event: ping\ndata: {}\n\n")
	f(`"response":": KEEPALIVE\n\ndata: {}\n\n"`, "text/event-stream", ": KEEPALIVE\n\ndata: {}\n\n")
	f(`"response":"<html>"`, "text/html", "<html>")
	f(`"response":"AAH/","response_encoding":"base64"`, "", "\x00\x01\xff")
	f(`"response":"AAH/","response_encoding":"base64","resp_headers":{"content-type":"application/vnd.amazon.eventstream"}`,
		"application/vnd.amazon.eventstream", "\x00\x01\xff")
	f(`"response":"x","response_headers":[["content-type","text/x"]]`, "", "x") // another format: ignored

	must.Equal(t, string(one(t, `{"request":"--boundary\r\n"}`).Request.Body), "--boundary\r\n", "request")
	must.Equal(t, string(one(t, `{"request":"e30=","request_encoding":"base64"}`).Request.Body), "{}", "request")
}

func TestNoResponse(t *testing.T) {
	x := one(t, `{"request":{}}`)
	if x.Response.Status != 0 || x.Response.Error == "" || x.Request.Method != "POST" || x.Request.Labels.Service != "s" {
		t.Errorf("%+v", x.Response)
	}
	x = one(t, `{"request":{},"status":"0","error":{"code":"ECONNRESET"}}`)
	must.Equal(t, x.Response.Error, `{"code":"ECONNRESET"}`, "%+v", x.Response)
	if x = one(t, `{"request":{},"status":"429","error":false}`); x.Response.Error != "" || x.Response.Status != 429 {
		t.Errorf("%+v", x.Response)
	}
}

func TestTimes(t *testing.T) {
	f := func(fields, want string, timed bool) {
		t.Helper()
		x := one(t, `{"request":{}`+fields+`}`)
		if got := x.Request.Time.Format(time.RFC3339Nano); got != want || x.HasTime != timed {
			t.Errorf("%s: %s, has time: %v", fields, got, x.HasTime)
		}
	}
	f(`,"time":"2026-10-01T08:00:00Z","recorded_at":"2025-01-01T00:00:00Z"`, "2026-10-01T08:00:00Z", true)
	f(`,"started_at":"2026-10-01 08:00:00.000000007"`, "2026-10-01T08:00:00.000000007Z", true)
	f(`,"recorded_at":"Sun, 10 Aug 2025 13:31:10 GMT"`, "2025-08-10T13:31:10Z", true)
	f(`,"time":1759305600.123456`, "2025-10-01T08:00:00.123456Z", true)
	f(`,"time":1759305600123`, "2025-10-01T08:00:00.123Z", true)
	f(`,"resp_headers":{"date":"Sun, 10 Aug 2025 13:31:10 GMT"}`, "2025-08-10T13:31:10Z", true)
	f(`,"resp_headers":{"date":"Sun, 10 Aug 2025 00:00:00 GMT","Date":["Sat, 09 Aug 2025 00:00:00 GMT"]}`, "2025-08-09T00:00:00Z", true)
	const unknown = "1970-01-01T00:00:00.000001Z"
	f(``, unknown, false)
	f(`,"time":"yesterday"`, unknown, false)
	f(`,"time":{"seconds":1}`, unknown, false)
	f(`,"time":-5`, unknown, false)
	f(`,"time":"9999-01-01T00:00:00Z"`, unknown, false)
	f(`,"time":"1.x"`, unknown, false)

	all, _ := read(t, "{\"request\":1}\n\n{\"request\":2}\n", Config{Day: time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC)})
	must.Equal(t, all[1].Request.Time.Format(time.RFC3339Nano), "2026-11-20T00:00:00.000003Z", "with a day")
}

// A record has the same exchange id and time regardless of its file and line.
func TestIDs(t *testing.T) {
	const want = "5b9c90ce-298d-512d-ac84-e3cb43a35c25"
	x := one(t, line)
	must.Equal(t, x.ID.String(), want, "id: ids must never change")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte("\xef\xbb\xbf\r\n" + strings.TrimSpace(line) + "\r\n"))
	_ = w.Close()
	all, bad := read(t, z.String(), Config{})
	if len(all) != 1 || bad != nil || all[0].ID != x.ID || !all[0].Request.Time.Equal(x.Request.Time) || all[0].Source != "f:2" {
		t.Errorf("%+v, %v", all, bad)
	}
	if one(t, strings.Replace(line, `"status":200`, `"status":201`, 1)).ID == x.ID {
		t.Error("different lines have the same id")
	}
}

func TestBadLines(t *testing.T) {
	long := `{"request":"` + strings.Repeat("x", 600<<10) + `"}`
	file := strings.Join([]string{
		`{"request":1}`, `{"request":`, ``, `[1,2]`, `null`, `{"url":"u"}`, `{"request":null}`, `{"request":{},"status":1000}`,
		`{"request":{},"status":{}}`, `{"request":"?","request_encoding":"base64"}`, `{"request":{},"response":"x","response_encoding":"brotli"}`,
		long, "{\"request\":\"\xff\x00\"}", `{"request":2}`, strings.Repeat("[", 20000), `{"request":3}`, long,
	}, "\n")
	all, bad := read(t, file, Config{MaxLine: 500 << 10})
	var good []string
	for _, x := range all {
		good = append(good, x.Source+" "+string(x.Request.Body))
	}
	must.Agree(t, cmp.Diff([]string{"f:1 1", "f:14 2", "f:16 3"}, good))
	want := []string{
		`not_json f:2: not a JSON object: unexpected end of JSON input`,
		`not_json f:4: not a JSON object: json: cannot unmarshal array into Go value of type recorded.Line`,
		`not_exchange f:5: not an exchange: no request`,
		`not_exchange f:6: not an exchange: no request`,
		`not_exchange f:7: not an exchange: no request`,
		`not_exchange f:8: not an exchange: status "1000" is not an HTTP status`,
		`not_exchange f:9: not an exchange: status "{}" is not an HTTP status`,
		`bad_body f:10: request: decode base64: illegal base64 data at input byte 0`,
		`bad_body f:11: response: encoding "brotli" is not supported; use base64 or none`,
		`too_long f:12: longer than 512000 bytes`,
		`not_json f:13: not a JSON object: invalid character '\x00' in string literal`,
		`not_json f:15: not a JSON object: invalid character '[' exceeded max depth`,
		`too_long f:17: longer than 512000 bytes`,
	}
	must.Agree(t, cmp.Diff(want, bad))
}

func TestLongLine(t *testing.T) {
	text := strings.Repeat("é", 3<<20)
	all, bad := read(t, `{"request":"`+text+"\"}\n"+`{"request":"`+text+`"}`, Config{})
	if len(all) != 2 || bad != nil || string(all[1].Request.Body) != text {
		t.Errorf("%d exchanges, %v", len(all), bad)
	}
}

func TestInvalidFiles(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(`{"request":1}` + "\n" + `{"request":2}` + "\n"))
	_ = w.Close()
	f := func(file string, exchanges int, want string) {
		t.Helper()
		all, bad := read(t, file, Config{})
		if len(all) != exchanges || strings.Join(bad, "; ") != want {
			t.Errorf("%.40q: %d exchanges, %q", file, len(all), bad)
		}
	}
	f("", 0, "")
	f("\n\n", 0, "")
	f("\x1f\x8bxx", 0, "read f: unpack gzip: unexpected EOF")
	f(z.String()[:z.Len()-4], 2, "read f:3: unpack gzip: unexpected EOF")
	f(`{"log":{}}`, 0, "read f:1: the HAR has no log.entries")
	f(`{"log":[]}`, 0, "read f:1: the HAR has no log.entries")
	f(`{"log":{"entries":7}}`, 0, "read f:1: log.entries is not a list")
	f(`{"log":{"version":"1.2","entries":[]}}`, 0, "")
	f(`{"log":{"version":"1.2","entries":[`, 0, "read f:1: invalid HAR: unexpected EOF")
	f(`{"log":{"version":"1.2","entries":[{"request":{"method":"POST","postData":{"text":"{\"model\":1}"}}},{"x":`, 1,
		"read f:2: invalid HAR: unexpected EOF")
	f(`{"log":{"version":"1.2"`, 0, "read f:1: invalid HAR: unexpected EOF")
}

func TestHAR(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/browser.har"))(t)
	all, bad := read(t, string(b), Config{Service: "web"})
	want := []string{
		"not_llm f:1: GET https://chat.example.com/app.js is not an LLM call",
		"not_exchange f:3: not a HAR entry: json: cannot unmarshal string into Go struct field harEntry.request of type recorded.harRequest",
	}
	must.Agree(t, cmp.Diff(want, bad))
	if len(all) != 3 {
		t.Fatalf("%d exchanges", len(all))
	}
	q, s := all[0].Request, all[0].Response
	at := time.Date(2026, 10, 1, 6, 15, 31, 250e6, time.UTC)
	if q.URL != "https://api.openai.com/v1/chat/completions" || !q.Time.Equal(at) || q.Labels.Service != "web" || q.ContentType != "application/json" ||
		string(q.Body) != `{"model":"gpt-5", "messages":[{"role":"user","content":"été"}]}` {
		t.Errorf("request %+v\n%s", q, q.Body)
	}
	if s.Status != 200 || s.Duration != 1234500*time.Microsecond || s.FirstByte != 311*time.Millisecond || !s.Time.Equal(at.Add(s.Duration)) ||
		s.ProviderRequestID != "req_1" || wire.FramingOf(s.ContentType) != wire.SSE || string(s.Body) != "data: {\"choices\":[]}\n\ndata: [DONE]\n\n" {
		t.Errorf("response %+v\n%s", s, s.Body)
	}
	if s = all[1].Response; s.Status != 400 || string(s.Body) != `{"error":{"message":"no JSON"}}` {
		t.Errorf("request that is not JSON: %+v", s)
	}
	if s = all[2].Response; s.Status != 0 || s.Error != "net::ERR_CONNECTION_RESET" {
		t.Errorf("no response: %+v", s)
	}
	again, _ := read(t, string(b), Config{})
	must.Equal(t, again[0].ID, all[0].ID, "the same entry has a different id when read again")
	huge := `{"log":{"version":"1.2","entries":[{"comment":"` + strings.Repeat("x", 100<<10) + `"}]}}`
	if all, bad := read(t, huge, Config{MaxLine: 50 << 10}); len(all) != 0 || len(bad) != 1 || !strings.Contains(bad[0], "too long") {
		t.Errorf("huge entry: %d exchanges, %v", len(all), bad)
	}
}

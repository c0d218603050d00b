package explain

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// keep collects results.
type keep struct{ results []Result }

func (k *keep) Print(r *Result) error { k.results = append(k.results, *r); return nil }
func (k *keep) Close(Counts) error    { return nil }

func explain(t testing.TB, r io.Reader) []Result {
	t.Helper()
	k := &keep{}
	must.Do(t, New(k).File("-", r))
	return k.results
}

// render renders each result as "source id cause known rule@message", or "source error".
func render(results []Result) []string {
	var out []string
	for _, r := range results {
		s := r.Source
		if r.ID != "" {
			s += " " + r.ID
		}
		if r.Cause != "" {
			s += " " + r.Cause + " " + r.Known
		}
		if r.Rule != "" && r.Message != nil {
			s += fmt.Sprintf(" %s@%d", r.Rule, *r.Message)
		}
		if r.Other != nil {
			s += fmt.Sprintf(" or %s@%d", r.Other.Cause, r.Other.Message)
		}
		for _, p := range r.Possible {
			s += " maybe " + p
		}
		if r.Error != "" {
			s += " error"
		}
		out = append(out, s)
	}
	return out
}

func expect(t *testing.T, name, text string, want ...string) {
	t.Helper()
	must.Agree(t, cmp.Diff(want, render(explain(t, strings.NewReader(text)))), name)
}

const (
	orphanText = `Messages with role 'tool' must be a response to a preceding message with 'tool_calls'`
	refused    = `{"error":{"message":"` + orphanText + `","type":"invalid_request_error"}}`
	opaque     = "Request contains an invalid argument."

	user     = `{"role":"user","content":"q"}`
	reply    = `{"role":"tool","tool_call_id":"call_1","content":"ok"}`
	lost     = `{"model":"m","messages":[` + user + `,` + reply + `]}`
	object   = `{"model":"m","messages":[` + user + `,{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":{}}}]},` + reply + `]}`
	deepSeek = `"url":"https://api.deepseek.com/chat/completions"`
)

// Input without records is a text.
func TestTexts(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		expect(t, name, text, "- "+want)
		expect(t, name+", in lines", "\n\n"+text+"\nand so on\n", "- "+want)
	}
	f("exception", `openai.BadRequestError: Error code: 400 - {'error': {'message': "`+orphanText+`"}}`, "orphan_tool_reply stated")
	f("page", "<html>\n<head><title>502 Bad Gateway</title></head>\n</html>", "server_error stated")
	f("status", "HTTP/1.1 401 x", "auth stated")
	f("unknown", "it did not like 17", "unexplained none")
	f("not UTF-8", "\xff\xfe\x00 it did not like it", "unexplained none")
	f("no answer", "dial tcp 127.0.0.1:1: connect: connection refused", "no_response stated")
	f("broken JSON", `{"detail": {"message": "`+orphanText, "orphan_tool_reply stated")
	f("stream", "event: message\ndata: {\"choices\":[{\"delta\":{\"content\":\""+strings.Repeat("rate limit ", 1000)+"\"}}]}\n\ndata: "+refused+"\n\n", "orphan_tool_reply stated")
	expect(t, "body", refused, "-:1 orphan_tool_reply stated")
	expect(t, "body in lines", "{\n  \"error\": {\n    \"code\": 401,\n    \"message\": \"x\"\n  }\n}\n", "-:1 auth stated")
	expect(t, "body of another shape", `{"detail":"`+orphanText+`"}`, "- orphan_tool_reply stated")
	expect(t, "array", "[{\n\"error\":{\"code\":429,\"message\":\"x\"}\n}]", "-:1 rate_limit stated")
	expect(t, "number", "7", "- unexplained none")
	expect(t, "nothing", "", "- error")
	expect(t, "white space", " \n\n\t", "- error")
}

func TestRecords(t *testing.T) {
	a, b := `{"id":"a","status":400,"body":"`+orphanText+`"}`, `{"id":2,"status":401,"body":{"x":1}}`
	sayA, sayB := " a orphan_tool_reply stated", " 2 auth stated"
	expect(t, "lines", a+"\n\n"+b, "-:1"+sayA, "-:3"+sayB)
	expect(t, "array", "["+a+","+b+"]", "-:1"+sayA, "-:1"+sayB)
	expect(t, "array over lines", "[\n"+a+",\n"+b+"\n]\n", "-:1"+sayA, "-:1"+sayB)
	expect(t, "one over lines", strings.ReplaceAll(a, ",", ",\n"), "-:1"+sayA)
	expect(t, "several over lines", strings.ReplaceAll(a+b, ",", ",\n"), "-:1"+sayA, "-:3"+sayB)
	expect(t, "byte order mark", "\ufeff"+a, "-:1"+sayA)
	expect(t, "broken first line", "{\"id\":\n"+a, "-:1 error", "-:2"+sayA)
	expect(t, "broken line", a+"\n{\"id\":\n"+b, "-:1"+sayA, "-:2 error", "-:3"+sayB)
	expect(t, "no record", a+"\n7\n{}\n[]\n\"x\"\n{\"id\":\"x\"}\n"+b, "-:1"+sayA, "-:2 error", "-:3 error", "-:4 error", "-:5 error", "-:6 x error", "-:7"+sayB)
	expect(t, "error bodies", refused+"\n"+refused, "-:1 orphan_tool_reply stated", "-:2 orphan_tool_reply stated")
	expect(t, "error and status", `{"id":"x","provider":"openai","status":400,"error":"`+orphanText+`"}`, "-:1 x orphan_tool_reply stated")
	expect(t, "status alone", `{"id":"x","status":402}`, "-:1 x billing stated")
	expect(t, "status as text", `{"id":"x","status":"402","body":"x"}`, "-:1 x billing stated")
	expect(t, "no status", `{"id":"x","body":"Error code: 402"}`, "-:1 x billing stated")
	expect(t, "no answer", `{"id":"x","status":0,"body":"EOF"}`, "-:1 x no_response stated")
	expect(t, "odd types", `{"id":["x"],"status":{},"body":7,"provider":1,"url":[],"request":"x"}`, "-:1 [\"x\"] unexplained none error")

	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(a + "\n" + b)) // never fails
	_ = w.Close()
	expect(t, "gzip", z.String(), "-:1"+sayA, "-:2"+sayB)
	expect(t, "gzip cut short", z.String()[:z.Len()-9], "-:1"+sayA, "-:2"+sayB, "-:2 error")
	expect(t, "no gzip", "\x1f\x8bxx", "- error")

	k := &keep{}
	e := New(k)
	if err := e.File(filepath.Join(t.TempDir(), "nosuch"), nil); err != nil || len(k.results) != 1 || k.results[0].Error == "" || e.Counts.Unreadable != 1 {
		t.Errorf("no such file: %v, %+v", err, k.results)
	}
	for _, text := range []string{"", "it did not", a} {
		got := explain(t, io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("broken disk"))))
		if n := len(got); n == 0 || !strings.Contains(got[n-1].Error, "broken disk") {
			t.Errorf("%q before a broken disk: %v", text, render(got))
		}
	}
}

// Records are explained incrementally: the log of a running agent has no end.
func TestIncremental(t *testing.T) {
	r, w := io.Pipe()
	k := &keep{}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		_ = New(notifying{k, seen}).File("-", r) // returns when the pipe is closed
	}()
	must.Get(io.WriteString(w, `{"id":"a","status":401,"body":"x"}`+"\n"))(t)
	<-seen
	w.Close()
	<-seen
}

// notifying signals each result.
type notifying struct {
	*keep
	seen chan struct{}
}

func (p notifying) Print(*Result) error { p.seen <- struct{}{}; return nil }

func TestExchanges(t *testing.T) {
	f := func(name, rest, want string) {
		t.Helper()
		expect(t, name, `{"id":"x",`+deepSeek+`,"request":`+lost+`,`+rest+`}`, strings.TrimSpace("-:1 x "+want))
	}
	both := "orphan_tool_reply both orphan_tool_reply@1"
	f("refused", `"status":400,"response":`+refused, both)
	f("refused, as text", `"status":400,"response":"`+orphanText+`"`, both)
	f("no status", `"response":`+refused, both)
	f("no body", `"status":400,"response":null`, "orphan_tool_reply inferred orphan_tool_reply@1")
	f("accepted", `"status":200,"response":{"choices":[{"message":{"role":"assistant","content":"a"}}]}`, "")
	f("error in an answer", `"status":200,"response":`+refused, both)
	f("error in a stream", `"status":200,"response":"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"`+orphanText+`\"}}\n\n"`, both)
	f("base64", `"status":400,"response_encoding":"base64","response":"`+"TWVzc2FnZXMgd2l0aCByb2xlICd0b29sJyBtdXN0IGJlIGEgcmVzcG9uc2UgdG8gYSBwcmVjZWRpbmcgbWVzc2FnZSB3aXRoICd0b29sX2NhbGxzJw=="+`"`, both)
	f("no answer", `"status":0,"error":"connection reset by peer"`, "no_response stated")
	expect(t, "request cut short", `{"id":"x","status":401,"body":"x",`+deepSeek+`,"request":"{\"messages\":[{\"role\""}`, "-:1 x auth stated error")
	expect(t, "answer of no dialect", `{"id":"x","url":"https://api.openai.com/v1/embeddings","status":200,"request":{},"response":{"data":[]}}`, "-:1 x")
}

// An opaque text is explained by the request if the provider is known to reject it.
func TestRequests(t *testing.T) {
	f := func(name, who, request, text, want string) {
		t.Helper()
		expect(t, name, fmt.Sprintf(`{"status":400,%s,"request":%s,"body":%q}`, who, request, text), "-:1 "+want)
	}
	inferred := "orphan_tool_reply inferred orphan_tool_reply@1"
	f("by url", deepSeek, lost, opaque, inferred)
	f("by provider", `"provider":"DeepSeek"`, lost, opaque, inferred)
	f("url before provider", `"provider":"ollama",`+deepSeek, lost, opaque, inferred)
	f("provider behind a proxy", `"provider":"deepseek","url":"http://llm.example.com/v1/chat/completions"`, lost, opaque, inferred)
	f("request as text", deepSeek, fmt.Sprintf("%q", lost), opaque, inferred)
	f("messages alone", `"provider":"openai"`, `[`+user+`,`+reply+`]`, opaque, inferred)
	f("by model", `"model":"deepseek-chat"`, lost, opaque, inferred)
	f("another rule", `"provider":"gemini-openai-compat"`, object, opaque, "arguments_not_string inferred arguments_not_string@1")
	f("known to be lenient", `"provider":"ollama"`, lost, orphanText, "orphan_tool_reply both orphan_tool_reply@1")
	f("conflict", `"provider":"openai"`, object, orphanText, "orphan_tool_reply conflict or arguments_not_string@1")
	f("no conflict", deepSeek, lost, "Insufficient Balance", "billing stated")
	f("nothing wrong", deepSeek, `{"messages":[`+user+`]}`, opaque, "unexplained none")
	f("accepted by this server", `"provider":"ollama"`, lost, opaque, "unexplained none")
	f("unknown server", `"url":"http://llm.example.com/v1/chat/completions"`, lost, opaque, inferred)
	f("unknown provider", `"provider":"acme"`, lost, opaque, inferred)
	f("gateway", `"provider":"litellm"`, lost, opaque, inferred)
	f("no provider", `"id":""`, lost, opaque, inferred)
	f("two rules", `"provider":"acme"`, `{"messages":[`+user+`,`+user+`,`+reply+`]}`, opaque, "unexplained none maybe orphan_tool_reply maybe role_alternation_broken")
	f("another API", `"url":"https://api.openai.com/v1/images/generations"`, `{"prompt":"q"}`, opaque, "unexplained none")
}

func TestProvider(t *testing.T) {
	f := func(record, want string) {
		t.Helper()
		got := explain(t, strings.NewReader(record))
		if len(got) != 1 || got[0].Provider != want {
			t.Errorf("%s: %+v, want provider %q", record, got, want)
		}
	}
	f(`{"body":"`+orphanText+`","provider":"litellm"}`, "deepseek") // only DeepSeek begins with a capital letter
	f(`{"body":"Invalid parameter: m`+orphanText[1:]+`","provider":"acme"}`, "openai")
	f(`{"body":"Invalid parameter: m`+orphanText[1:]+`","provider":"azure"}`, "azure")
	f(`{"body":"Invalid parameter: m`+orphanText[1:]+`"}`, "openai")
	array := `[{ \"error\": { \"code\": 400, \"status\": \"INVALID_ARGUMENT\" } }]`
	f(`{"body":"`+array+`","provider":"Google"}`, "Google")
	f(`{"body":"`+array+`","provider":"acme"}`, "gemini")
	f(`{"body":"x","provider":"acme"}`, "acme")
	f(`{"body":"x",`+deepSeek+`}`, "deepseek")
	f(`{"body":"x","url":"https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"}`, "gemini")
	f(`{"body":"x","url":"https://llm.example.com/"}`, "")
	f(`{"body":"x","status":401,"provider":"xai"}`, "xai")
}

// Every variant of every dialect is found by its name.
func TestProviders(t *testing.T) {
	for _, d := range wire.Dialects {
		variants := d.Variants()
		for _, v := range variants {
			if v == wire.OtherVariant {
				continue
			}
			own := variantsOf(string(v))
			must.Equal(t, variantFor(d, own), v, "%s/%s: found %v", d, v, own)
		}
	}
}

func TestRelevantPart(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		expect(t, name, text, "- "+want)
	}
	frames := strings.Repeat("  File \"/app/rate_limit.py\", line 8, in run\n    raise RateLimited(\"rate limit\")\n          ^^^^^^^^^^^\n", 100)
	f("traceback", "Traceback (most recent call last):\n"+frames+"openai.BadRequestError: Error code: 400 - "+refused+"\n", "orphan_tool_reply stated")
	f("stack of JavaScript", "Error: 400 "+orphanText+"\n"+strings.Repeat("    at rateLimit (/app/rate limit.js:10:5)\n", 200), "orphan_tool_reply stated")
	f("indented text", "ValidationError\n  rate limit\n", "rate_limit stated")
	f("end of a log", strings.Repeat("all is well\n", 1000)+orphanText+"\n", "orphan_tool_reply stated")
	f("middle of a log", strings.Repeat("all is well\n", 1000)+orphanText+"\n"+strings.Repeat("all is well\n", 1000), "orphan_tool_reply stated")
	f("start of a body", `{"detail":"`+orphanText+`","input":"`+strings.Repeat("rate limit ", 1000)+`"}`, "orphan_tool_reply stated")
	f("nowhere", strings.Repeat("all is well\n", 200_000), "unexplained none")
	dots := strings.Repeat(strings.Repeat(".", 70)+"\n", 2*window/71)
	for at := range 2 * window / 71 { // every line is in one window
		text := []byte(dots[:71*at] + orphanText + "\n" + dots[71*at:])
		if c := cause.Classify(cause.Input{Status: 400, Text: relevantPart(cause.Input{Status: 400, Text: text})}); c.ID != "orphan_tool_reply" {
			t.Fatalf("error in line %d: cause %s", at, c.ID)
		}
	}
}

func TestFindStatus(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		must.Equal(t, findStatus([]byte(text)), want, "%s: status", text)
	}
	f("Error code: 429 - {'error'", 429)
	f("status_code=503, body", 503)
	f("Request failed with status code 401", 401)
	f(`{"error":{"code":404,"message"`, 404)
	f(`{"error":{"code":"403"`, 403)
	f(`{"error":{"code":"1214"`, 400)
	f("HTTP/1.1 502 Bad Gateway", 502)
	f("HTTP 413", 413)
	f("HTTPStatusError: Client error '401 Unauthorized' for url", 401)
	f(`401 {"type":"error"`, 401)
	f("500 Internal Server Error", 500)
	f("429 status code (no body)", 429)
	f("✗ openrouter [404]: no such model", 404)
	f("Invalid 'messages[404].content': string too long", 400)
	f("<html><head><title>504 Gateway Time-out</title>", 504)
	f("APITimeoutError: Request timed out.", 0)
	f("Post \"https://x\": context deadline exceeded", 0)
	f("maximum of 500 messages", 400)
	f("502 messages are too many", 400)
	f("messages.401: bad", 400)
	f("", 400)
}

// Any input gives results or nothing, and no error.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		refused, `{"id":"a","status":400,"body":"x"}` + "\n{", `[{"body":1}]`, `{"status":200,"response":"data: {}\n\n","request":` + lost + `}`,
		"Traceback\n  File \"x\", line 1\n    y\nz", "\x1f\x8b\x08", `{"provider":"gemini","request":[` + user + `],"body":"` + opaque + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		k := &keep{}
		e := New(k)
		must.Do(t, e.File("-", bytes.NewReader(in)))
		for i := range k.results {
			r := &k.results[i]
			if r.Error == "" && r.Summary == "" || r.Cause != "" && (r.Class == "" || r.Known == "" || r.Fix == "") {
				t.Errorf("%q: %+v", in, r)
			}
			must.Do(t, (Text{io.Discard, &terminal.Style{Width: 80}}).Print(r))
		}
	})
}

package shape

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var update = flag.Bool("update", false, "write the golden files")

const noLimit = 1 << 30

var dialects = wire.Dialects

// sum returns the hash of a text by the contract, independently of Shaper.
func sum(key, text string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))[:16]
}

// h returns the shape of a text under the key of the tests; k that of a key.
func h(text string) string { return fmt.Sprintf("~%d:%s", len(text), sum("key", text)) }
func k(text string) string { return "k" + sum("key", text) }

func request(d wire.Dialect, body string) string {
	return string(New([]byte("key")).Request(d, []byte(body), noLimit))
}

func response(d wire.Dialect, body string) string {
	return string(New([]byte("key")).Response(d, []byte(body), noLimit))
}

func TestCopies(t *testing.T) {
	b := must.Get(os.ReadFile("../../testdata/shape_paths.json"))(t)
	must.Equal(t, string(b), string(pathsJSON), "shape_paths.json and ingest/sdk/testdata/shape_paths.json; run go generate in ingest/sdk/go/shape")
	for _, d := range dialects {
		if tables()[d] == nil {
			t.Errorf("shape_paths.json has no dialect %s", d)
		}
	}
}

// An error inside a 200 is kept, redacted.
func TestErrorTextIsMasked(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		got := string(New([]byte("k")).Response(wire.OpenAIChat, []byte(`{"error":{"message":"`+text+`"}}`), 1<<20))
		want = `{"error":{"message":"` + want + `"}}`
		must.Equal(t, got, want, "%.200s", text)
	}
	f(`bad key \"sk-abc123DEF456\" of jane@example.com,\nfor call_1`, `bad key \"sk-***\" of ***@***,\nfor call_1`)
	long := strings.Repeat("a ", maxText/2-5)
	f(long+"sk-abc123DEF456 too", long)
}

func TestRequest(t *testing.T) {
	f := func(d wire.Dialect, body, want string) {
		t.Helper()
		must.Equal(t, request(d, body), want, "%s", body)
	}
	// Values at protocol positions are kept; text and white space are not.
	f(wire.OpenAIChat, `{ "model" : "gpt-5", "messages": [ {"role":"user", "content":"read config.py"} ], "temperature": 0.7 }`,
		`{"model":"gpt-5","messages":[{"role":"user","content":"`+h("read config.py")+`"}],"temperature":0.7}`)
	// Texts are decoded before they are hashed, empty ones too.
	f(wire.OpenAIChat, `{"messages":[{"role":"user","content":"\u4f60\u597d \"\n\ud83d\ude00\ud83d"},{"role":"assistant","content":""}]}`,
		`{"messages":[{"role":"user","content":"`+h("你好 \"\n😀\uFFFD")+`"},{"role":"assistant","content":"`+h("")+`"}]}`)
	// Unknown keys at protocol levels are kept, their values are not; metadata has free keys.
	f(wire.OpenAIChat, `{"messages":[{"role":"user","timestamp":17,"extra":{"a":[1,"x",null,true]}}],"metadata":{"mail":"a@b.c"},"user":"u1"}`,
		`{"messages":[{"role":"user","timestamp":0,"extra":{"`+k("a")+`":[0,"`+h("x")+`",null,true]}}],"metadata":{"`+k("mail")+`":"`+h("a@b.c")+`"},"user":"`+h("u1")+`"}`)
	// A key that is free text.
	long := strings.Repeat("secret ", 20)
	f(wire.OpenAIChat, `{"messages":[{"`+long+`":1}]}`, `{"messages":[{"`+k(long)+`":0}]}`)
	// Wrong types keep their kind; duplicate keys are kept; absent members remain absent.
	f(wire.OpenAIChat, `{"messages":[{"role":{"a":"b"},"tool_call_id":7,"content":{"t":5},"content":null,"tool_calls":"none"}, "text", 5],"messages":{"role":"user"}}`,
		`{"messages":[{"role":{"`+k("a")+`":"`+h("b")+`"},"tool_call_id":7,"content":{"`+k("t")+`":0},"content":null,"tool_calls":"`+h("none")+`"},"`+h("text")+`",0],"messages":{"`+k("role")+`":"`+h("user")+`"}}`)
	// Not a body of a dialect.
	f(wire.Other, `{"messages":[]}`, h(`{"messages":[]}`))
	f("nonsense", `{}`, h(`{}`))
	f(wire.OpenAIChat, "--boundary\r\n", h("--boundary\r\n"))
	f(wire.OpenAIChat, `{"messages":[`, h(`{"messages":[`)+":bad")
	f(wire.OpenAIChat, `{"messages":[]} x`, h(`{"messages":[]} x`)+":bad")
	f(wire.OpenAIChat, `{"model":nul}`, h(`{"model":nul}`)+":bad")
	f(wire.OpenAIChat, `{"a":1,}`, h(`{"a":1,}`)+":bad")
	// The result object of a tool is free content; Gemini accepts one part instead of an array.
	f(wire.Anthropic, `{"messages":[{"content":[{"type":"tool_result","content":{"name":"secret"}}]}]}`,
		`{"messages":[{"content":[{"type":"tool_result","content":{"`+k("name")+`":"`+h("secret")+`"}}]}]}`)
	f(wire.Gemini, `{"contents":{"role":"user","parts":{"text":"secret"}}}`, `{"contents":{"role":"user","parts":{"text":"`+h("secret")+`"}}}`)
	// A wrong root is free content.
	f(wire.OpenAIChat, `[{"role":"user"}]`, `[{"`+k("role")+`":"`+h("user")+`"}]`)
}

func TestArguments(t *testing.T) {
	f := func(args, want string) {
		t.Helper()
		q := must.Get(json.Marshal(args))(t)
		var got struct {
			Messages []struct {
				ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
		}
		out := request(wire.OpenAIChat, `{"messages":[{"tool_calls":[{"function":{"arguments":`+string(q)+`}}]}]}`)
		must.Do(t, json.Unmarshal([]byte(out), &got), out)
		must.Equal(t, got.Messages[0].ToolCalls[0].Function.Arguments, want, "%q", args)
	}
	object := func(members ...string) string {
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	}
	m := func(key, value string) string { return `"` + k(key) + `":` + value }
	s := func(text string) string { return `"` + h(text) + `"` }
	f(`{}`, `{}`)
	f(` { "path" : "config.py", "n": -1.5e3, "ok": true, "no": null } `, object(m("path", s("config.py")), m("n", "0"), m("ok", "true"), m("no", "null")))
	f(`{"b":{"d":1,"c":[{"y":"1","x":"2"}]},"a":""}`, object(m("b", object(m("d", "0"), m("c", "["+object(m("y", s("1")), m("x", s("2")))+"]"))), m("a", s(""))))
	f(`{"a":"\u4f60\\"}`, object(m("a", s("你\\"))))
	f(`"text"`, s("text"))
	f(`[1,2]`, `[0,0]`)
	// Not one JSON value.
	for _, bad := range []string{`{"a": "un`, `{"a":01}`, `{'a':1}`, `{"a":1} x`, `{"a":1`, `nul`, `{"a":}`, `{"a":1,}`, `[1,]`, `01`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `NaN`} {
		f(bad, h(bad)+":bad")
	}
	f(`{"a":1}{"b":2}`, h(`{"a":1}{"b":2}`)+":multi")
	f(`1 2`, h(`1 2`)+":multi")
	f(``, h("")+":bad")
	f(" \n", h("")+":bad")
	// Nested deeper than maxDepth.
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	f(deep(1024), deep(1024))
	f(deep(2000), deep(1025))
	// An object is shaped like a string with the object.
	got := request(wire.Anthropic, `{"messages":[{"content":[{"type":"tool_use","input":{"b":"1","a":{"d":2,"c":[]}}}]}]}`)
	must.Equal(t, got, `{"messages":[{"content":[{"type":"tool_use","input":`+object(m("b", s("1")), m("a", object(m("d", "0"), m("c", "[]"))))+`}]}]}`, "shape")
}

// A key determines the hashes; the cache of short texts does not change them.
func TestKeys(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"hello world"}]}`
	s := New([]byte("key"))
	first := string(s.Request(wire.OpenAIChat, []byte(body), noLimit))
	for i := range 10000 {
		s.Request(wire.OpenAIChat, fmt.Appendf(nil, `{"messages":[{"role":"user","content":"hello %d"}]}`, i), noLimit)
	}
	if again := string(s.Request(wire.OpenAIChat, []byte(body), noLimit)); again != first || first != request(wire.OpenAIChat, body) {
		t.Errorf("%s, then %s", first, again)
	}
	if other := string(New([]byte("another")).Request(wire.OpenAIChat, []byte(body), noLimit)); other == first || len(other) != len(first) {
		t.Errorf("under two keys %s and %s", first, other)
	}
}

func TestLimit(t *testing.T) {
	body := `{"messages":[` + strings.Repeat(`"",`, 1000) + `""]}`
	must.Equal(t, string(New([]byte("key")).Request(wire.OpenAIChat, []byte(body), 5000)), h(body), "a request beyond its limit")
	stream := strings.Repeat(`data: {"choices":[{"x":["","a"]}]}`+"\n\n", 1000)
	must.Equal(t, string(New([]byte("key")).Response(wire.OpenAIChat, []byte(stream), 5000)), h(stream), "a stream beyond its limit")
	lines := strings.Repeat(`{"message":{"x":["","a"]}}`+"\n", 1000)
	must.Equal(t, string(New([]byte("key")).Response(wire.OpenAIChat, []byte(lines), 5000)), h(lines), "lines beyond their limit")
	args := `{"messages":[{"tool_calls":[{"function":{"arguments":"[` + strings.Repeat(`\"\",`, 1000) + `0]"}}]}]}`
	must.Equal(t, string(New([]byte("key")).Request(wire.OpenAIChat, []byte(args), 5000)), h(args), "arguments beyond the limit")
}

// The text of an error inside a 200 is kept up to 4 KiB, in whole characters.
func TestErrorText(t *testing.T) {
	got := response(wire.OpenAIChat, `{"error":{"message":"Token limit reached","type":"invalid_request_error","code":400,"failed_generation":"secret"}}`)
	must.Equal(t, got, `{"error":{"message":"Token limit reached","type":"invalid_request_error","code":400,"failed_generation":"`+h("secret")+`"}}`, "shape")
	long := strings.Repeat("é\\n", 5000)
	var e struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(response(wire.OpenAIChat, `{"error":{"message":"`+long+`"}}`)), &e); err != nil || len(e.Error.Message) < 3000 || strings.ContainsRune(e.Error.Message, '\uFFFD') {
		t.Errorf("%d bytes of a long text, %v", len(e.Error.Message), err)
	}
	must.Contain(t, response(wire.Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"), `"message":"Overloaded"`)
	must.Equal(t, response(wire.OpenAIChat, "event: error\ndata: upstream went away\n\n"), "event: error\ndata: upstream went away\n\n", "response")
}

// TestGolden shapes one request, answer and stream of each dialect; testdata shows the kept values.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) < 18 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		body := must.Get(os.ReadFile(file))(t)
		name, what, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".in"), ".")
		d := wire.Dialect(name)
		f := response
		if strings.HasPrefix(what, "request") {
			f = request
		}
		if d == wire.Bedrock && what == "stream" {
			body = []byte(frameLines(t, string(body)))
		}
		got := f(d, string(body))
		checkNothingLeaks(t, file, d, body, got)
		if d == wire.Bedrock && what == "stream" {
			got = unframe(t, got)
		}
		golden := strings.TrimSuffix(file, ".in") + ".golden"
		if *update {
			must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want := must.Get(os.ReadFile(golden))(t)
		must.Equal(t, got, string(want), "%s", file)
	}
}

// secret is in every free text and key of the golden files, and in no kept value.
var secret = regexp.MustCompile(`(?i)secret|geheim|机密|[0-9]{6}`)

func checkNothingLeaks(t *testing.T, file string, d wire.Dialect, body []byte, got string) {
	t.Helper()
	if !secret.Match(body) {
		t.Errorf("%s of %s contains no secret", file, d)
	}
	for _, m := range secret.FindAllString(shaped.ReplaceAllString(got, ""), -1) {
		t.Errorf("%s: %q is in the shape", file, m)
	}
}

var shaped = regexp.MustCompile(`~[0-9]+:[0-9a-f]{16}|k[0-9a-f]{16}`)

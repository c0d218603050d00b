package cause

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/slowtest"
)

// TestStatements: requests, answers and repeated values are left out; errors stay.
func TestStatements(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		got, traffic := Statements(nil, []byte(text))
		if string(got) != want || traffic != (len(want) < len(text)) {
			t.Errorf("%s: traffic %v\n got %q\nwant %q", name, traffic, got, want)
		}
	}
	same := func(name, text string) { t.Helper(); f(name, text, text) }

	f("request", `{"model":"m","messages":[{"role":"user","content":"rate limit"}],"tool_choice":"auto"}`, "")
	f("request in Python", `log {'messages': [{'role': 'user', 'content': "it's a rate limit"}], 'model': 'm'} end`, "log  end")
	f("request in JavaScript", "sent {\n  messages: [ { role: 'user', content: 'rate limit' } ]\n}\nok", "sent .\nok")
	f("request in JSON in JSON", `{"path":"/v1","body":"{\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"rate limit\\\"\"}]}"}`, `{"path":"/v1","body":""}`)
	f("request in YAML", "model: m\nmessages:\n- role: user\n  content: rate limit\n", "")
	f("messages in YAML", "Error: refused\nmessages:\n  - role: user\n    content: rate limit\n", "Error: refused.\nmessages:\n")
	f("request of Cohere", `{"model":"m","message":"What is a rate limit?"}`, "")
	f("request of Gemini", `{"contents":[{"parts":[{"text":"rate limit"}]}],"generationConfig":{}}`, "")
	f("answer", `{"id":"1","choices":[{"message":{"content":"rate limit"}}],"error":null}`, "")
	f("answer in Python", `got ChatCompletion(choices=[Choice(message=ChatCompletionMessage(content='a (rate limit'))]), usage=None`, "got ChatCompletion, usage=None")
	f("stream", "data: {\"choices\":[{\"delta\":{\"content\":\"rate\"}}]}\n\ndata: [DONE]\n", "data: .\n\ndata: [DONE]\n")
	f("events", "event: response.output_text.delta\ndata: {\"delta\":\"rate\"}\n\nevent: error\ndata: refused\n", "\ndata: .\n\nevent: error\ndata: refused\n")
	f("part", `[{"text":"rate limit"}]`, `[]`)
	f("schema", `{"title":"Rate limit","properties":{"a":{"type":"string"}}}`, "")
	f("schema without properties", `{"title":"Rate limit","additionalProperties":false}`, "")
	f("message of Cohere", `{"role":"USER","message":"What is a rate limit?"}`, "")
	f("curl", `curl https://api.example.com -H "Authorization: Bearer x" -d '{"messages":[]}'`, "curl https://api.example.com  -d ''")
	f("cut short", "sent {'messages': [{'role': 'user', 'content': 'rate li...\nopenai.BadRequestError: refused", "sent .\nopenai.BadRequestError: refused")
	f("error in an answer", `{"choices":[{"error":{"message":"refused"},"message":{"content":"rate limit"}}]}`, ` ,error: {"message":"refused"}`)
	f("error beside a request", `{"error":{"message":"refused"},"request":{"messages":[],"model":"m"}}`, `{"error":{"message":"refused"},"request":}`)
	f("input", `{"detail":[{"loc":["body"],"msg":"refused","input":[{"text":"rate limit"}]}]}`, `{"detail":[{"loc":["body"],"msg":"refused","input":}]}`)
	f("input of pydantic", `refused [type=string_type, input_value='a rate limit', input_type=str]`, `refused [type=string_type, input_value=, input_type=str]`)
	same("wrapped exception", "ValidationException: The number of results\nexceeds the number of calls")
	f("exception before another", "ValueError: a\nhttpx.ConnectError: b", "ValueError: a.\nhttpx.ConnectError: b")
	same("prose", "it's refused: the messages must be a list")
	same("error", `{"error":{"message":"refused","type":"invalid_request_error","param":"messages","code":null}}`)
	same("error of a tool", `{"code":"tool_use_failed","message":"refused: {\"name\":\"f\"}"}`)
	same("short input", `{"msg":"refused","input":null}`)
	same("problem details", `{"type":"about:blank","title":"refused","status":400}`)
	same("text of an error", `{"code":400,"text":"refused"}`)
	same("list of errors", `{"messages":["refused"],"input":"developer"}`)
	same("lines of errors", "messages: roles must alternate\nmax_tokens: 9 > 8\n")
	same("", "")

	// Options and headers are no traffic. Their names say nothing: a timeout of 5 seconds did not elapse.
	if got, traffic := Statements(nil, []byte("timeout=5.0 x-ratelimit-limit-requests: 500 refused")); string(got) != "  refused" || traffic {
		t.Errorf("options: %q, traffic %v", got, traffic)
	}
}

// TestStatementsTakesLinearTime: brackets, quotes and keys that never end are not read again and again.
func TestStatementsTakesLinearTime(t *testing.T) {
	for _, unit := range []string{"[", "{", "(", "{{[(", `"`, `\"`, `'`, "input:", "input:[", "input:{", "error:{", "message:'", "a:\n", "tools:\n", "input: 'a\n", `{"error":`, "{messages:[{error:{", "f(x=", "-H '", "\n", "a: b\n", "usage: 1\nb: 2\n c: 3\n", "x-a: '", `\`, "=", " "} {
		measure := func(text []byte) time.Duration {
			start := slowtest.Processor(t)
			Statements(nil, text)
			return slowtest.Processor(t) - start
		}
		small, large := bytes.Repeat([]byte(unit), (8<<10)/len(unit)), bytes.Repeat([]byte(unit), (128<<10)/len(unit))
		// Quadratic time would be 256 times as much. It is the time of the processor, of which the least counts, so that how busy
		// the machine is does not matter.
		one, sixteen, linear := time.Hour, time.Hour, false
		for run := 0; run < 50 && !linear; run++ {
			for range 3 {
				one = min(one, measure(small))
			}
			sixteen = min(sixteen, measure(large))
			linear = sixteen <= 64*one+time.Millisecond
		}
		if !linear {
			t.Errorf("8 KiB of %q take %v, 128 KiB %v", unit, one, sixteen)
		}
	}
}

// FuzzStatements: the statements of a text are parts of it.
func FuzzStatements(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"x"}]}`, `{'error': {"a": 'x\'y'}, 'input': [1]}`, "a: 1\nmessages:\n- b: c\n", `f(content='x', usage=None)`,
		`{\"tools\":[\"a\"]}`, "timeout=5 x-a: 'b' -H 'c'", "{\"choices\":[{\"error\":\"x\"}\nError: y", strings.Repeat("{[(", 30),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stated, traffic := Statements([]byte("<"), text)
		switch {
		case len(stated) == 0 || stated[0] != '<':
			t.Fatalf("%q: %q", text, stated)
		case !traffic && !bytes.ContainsAny(text, ":=\n") && !bytes.Equal(stated[1:], text):
			t.Fatalf("%q: %q", text, stated)
		}
		var buf [maxText + maxEdges]byte
		if got := statements(buf[:0], text); len(got) > cap(buf) || len(text) <= maxText && len(stated) < maxText && !bytes.Equal(got, stated[1:]) {
			t.Fatalf("%q: %q, as a whole %q", text, got, stated[1:])
		}
	})
}

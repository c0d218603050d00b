package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// poison contains sentences of users, tools and models that are errors elsewhere.
var poison = []string{
	"messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
	"The API said: rate limit exceeded, too many requests (429). Try again later.",
	"Error: invalid api key, 401 Unauthorized",
	"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
	"Insufficient Balance",
	"An assistant message with \"tool_calls\" must be followed by tool messages responding to each 'tool_call_id'.",
	"The server is overloaded; 503 Service Unavailable",
	"The model `gpt-x` does not exist or you do not have access to it.",
	"Your request was rejected as a result of our safety system.\nconnection refused: timed out",
	`{"error":{"message":"Duplicate value for 'tool_call_id' of call_00_x in message[2]","code":400}}`,
}

// conversation returns a request with s in its messages.
func conversation(s string) map[string]any {
	return map[string]any{
		"model": "m", "temperature": json.Number("0.2"), "stream": true, "tool_choice": "auto", "max_tokens": json.Number("300"),
		"messages": []any{
			map[string]any{"role": "system", "content": "You are a helper. " + s},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": s}}},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "call_1", "type": "function", "function": map[string]any{"name": "search", "arguments": marshal(map[string]any{"query": s})}}}},
			map[string]any{"role": "tool", "tool_call_id": "call_1", "content": s},
		},
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "search", "description": s, "parameters": map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string", "description": s}}}}}},
	}
}

// transport contains errors of clients that received no answer, and of proxies.
var transport = []struct{ text, want string }{
	{"openai.APIConnectionError: Connection error.", "no_response"},
	{"httpx.ConnectError: [Errno 111] Connection refused", "no_response"},
	{"httpx.ReadTimeout: The read operation timed out", "no_response"},
	{"openai.APITimeoutError: Request timed out.", "no_response"},
	{"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.openai.com', port=443): Max retries exceeded with url: /v1/chat/completions (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno 111] Connection refused'))", "no_response"},
	{"ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1000)", "no_response"},
	{"socket.gaierror: [Errno -2] Name or service not known", "no_response"},
	{"Error: getaddrinfo ENOTFOUND api.openai.com", "no_response"},
	{"TypeError: fetch failed\n    at node:internal/deps/undici/undici:12618:11\n  cause: Error: connect ECONNREFUSED 127.0.0.1:8080", "no_response"},
	{"Post \"https://api.openai.com/v1/chat/completions\": dial tcp 10.0.0.1:443: i/o timeout", "no_response"},
	{"Post \"https://api.openai.com/v1/chat/completions\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)", "no_response"},
	{"read tcp 10.0.0.1:5000->10.0.0.2:443: read: connection reset by peer", "no_response"},
	{"httpx.RemoteProtocolError: Server disconnected without sending a response.", "no_response"},
	{"curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server", "no_response"},
	{"curl: (28) Operation timed out after 30001 milliseconds with 0 bytes received", "no_response"},
	{"curl: (6) Could not resolve host: api.example.com", "no_response"},
	{"<html>\n<head><title>502 Bad Gateway</title></head>\n<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body>\n</html>", "server_error"},
	{"HTTP/1.1 503 Service Unavailable", "server_error"},
	{"upstream connect error or disconnect/reset before headers. reset reason: connection termination", "server_error"},
}

// A transport error after the dump of a request has the cause of the transport error.
func TestTransportAfterDump(t *testing.T) {
	all, wrong, protocol := 0, 0, 0
	every := 10 / slowtest.Tenth(t, 10)
	for i, x := range transport {
		must.Equal(t, textOf(t, x.text).Cause, x.want, "alone: instead of %s: %s", x.want, x.text)
		for j, s := range poison {
			for k, form := range formNames {
				if (i+j+k)%every != 0 {
					continue
				}
				text := forms[form](conversation(s)) + "\n" + x.text
				got := textOf(t, text)
				all++
				if got.Cause != x.want {
					if wrong++; wrong < 25 {
						t.Errorf("%s: %s by %s instead of %s: %s\n%s", form, got.Cause, got.StatedBy, x.want, x.text, text)
					}
				}
				if isProtocol(got.Class) {
					protocol++
				}
			}
		}
	}
	t.Logf("%d of %d have another cause, %d of them a fault of the request", wrong, all, protocol)
}

// echoes contains errors that repeat a part of the request, which f returns.
var echoes = map[string]func(s string) string{
	"FastAPI": func(s string) string {
		return fmt.Sprintf(`{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","name"],"msg":"Extra inputs are not permitted","input":%s}]}`, marshal(s))
	},
	"FastAPI with messages": func(s string) string {
		return fmt.Sprintf(`{"detail":[{"type":"missing","loc":["body","messages",1,"tool","tool_call_id"],"msg":"Field required","input":%s}]}`, marshal(conversation(s)["messages"].([]any)[3]))
	},
	"FastAPI with body": func(s string) string {
		return fmt.Sprintf(`{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required","input":%s}]}`, marshal(conversation(s)))
	},
	"Mistral": func(s string) string {
		return fmt.Sprintf(`Request POST https://api.mistral.ai/v1/chat/completions failed with status code: 422, body: {"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","name"],"msg":"Extra inputs are not permitted","input":%s}]},"type":"invalid_request_error","param":null,"code":null}`, marshal(s))
	},
	"SDK exception": func(s string) string {
		return fmt.Sprintf(`openai.UnprocessableEntityError: Error code: 422 - {'detail': [{'type': 'string_type', 'loc': ['body', 'messages', 1, 'content'], 'msg': 'Input should be a valid string', 'input': %s}]}`, python([]any{map[string]any{"type": "text", "text": s}}))
	},
	"vLLM": func(s string) string {
		return fmt.Sprintf(`{"object":"error","message":"[{'type': 'string_type', 'loc': ('body', 'messages', 1, 'content'), 'msg': 'Input should be a valid string', 'input': %s}]","type":"BadRequestError","param":null,"code":400}`, strings.Trim(marshal(python([]any{map[string]any{"type": "text", "text": s}})), `"`))
	},
	"pydantic": func(s string) string {
		return "1 validation error for ChatCompletionRequest\nmessages.1.content\n  Input should be a valid string [type=string_type, input_value=" + python([]any{map[string]any{"type": "text", "text": s}}) + ", input_type=list]\n    For further information visit https://errors.pydantic.dev/2.11/v/string_type"
	},
	"pydantic with text": func(s string) string {
		return "1 validation error for ChatCompletionRequest\nmessages.1.tool_calls\n  Input should be a valid list [type=list_type, input_value=" + pythonString(s) + ", input_type=str]"
	},
	"Groq": func(s string) string {
		return fmt.Sprintf(`{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":%s}}`, marshal("<function=search>"+s+"</function>"))
	},
	"zod": func(s string) string {
		return fmt.Sprintf(`{"error":{"name":"ZodError","issues":[{"code":"invalid_type","expected":"string","received":"array","path":["messages",1,"content"],"message":"Expected string, received array"}]},"received":%s}`, marshal(conversation(s)))
	},
	"LiteLLM": func(s string) string {
		return "litellm.BadRequestError: AzureException BadRequestError - Invalid type for 'messages[1].content': expected one of a string or array of objects, but got an object instead.. Received messages=" + python(conversation(s)["messages"])
	},
	"received": func(s string) string {
		return "Error code: 400 - Invalid type for 'messages[1].content': expected one of a string or array of objects, but got an object instead. received: " + marshal(conversation(s)["messages"].([]any)[1])
	},
	"jsonschema": func(s string) string {
		return "Error code: 400 - {'error': {'message': \"" + strings.ReplaceAll(python(map[string]any{"type": "text", "text": s}), `"`, `\"`) + " is not of type 'string' - 'messages.1.content'\", 'type': 'invalid_request_error', 'param': None, 'code': None}}"
	},
	"request beside the error": func(s string) string {
		return marshal(map[string]any{"error": map[string]any{"message": "Unsupported value: 'messages[0].role' does not support 'developer' with this model.", "type": "invalid_request_error"}, "request": conversation(s)})
	},
	"request as text beside the error": func(s string) string {
		return marshal(map[string]any{"error": map[string]any{"message": "Unsupported value: 'messages[0].role' does not support 'developer' with this model.", "type": "invalid_request_error"}, "request_body": marshal(conversation(s))})
	},
	"dump before the error": func(s string) string {
		return "DEBUG:openai._base_client:Request options: {'method': 'post', 'url': '/chat/completions', 'json_data': " + python(conversation(s)) + "}\nopenai.BadRequestError: Error code: 400 - {'error': {'message': \"Unsupported value: 'messages[0].role' does not support 'developer' with this model.\", 'type': 'invalid_request_error'}}"
	},
	"dump cut short before the error": func(s string) string {
		return python(conversation(s + strings.Repeat(" and so on", 20) + s))[:150] + "... (truncated)\nopenai.BadRequestError: Error code: 400 - {'error': {'message': \"Unsupported value: 'messages[0].role' does not support 'developer' with this model.\", 'type': 'invalid_request_error'}}"
	},
	"opaque error after a dump": func(s string) string {
		return python(conversation(s)) + "\nopenai.BadRequestError: Error code: 400 - {'error': {'message': 'Bad Request', 'type': 'invalid_request_error'}}"
	},
	"error in an answer": func(s string) string {
		return marshal(map[string]any{"id": "gen-1", "object": "chat.completion", "choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": s}, "finish_reason": "error", "error": map[string]any{"code": 400, "message": "Unsupported value: 'messages[0].role' does not support 'developer' with this model."}}}})
	},
}

// The part of the request that an error repeats changes no cause.
func TestEchoes(t *testing.T) {
	all, wrong := 0, 0
	names := []string{}
	for name := range echoes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		want := textOf(t, echoes[name]("all is well"))
		t.Logf("%s: %s", name, want.Cause)
		for _, s := range poison {
			text := echoes[name](s)
			all++
			if got := textOf(t, text); got.Cause != want.Cause {
				wrong++
				t.Errorf("%s: %s by %s instead of %s: %s", name, got.Cause, got.StatedBy, want.Cause, text)
			}
		}
	}
	t.Logf("%d of %d have another cause", wrong, all)
}

// A line of a log that refuses nothing has no cause, whatever it names.
func TestLinesWithoutErrors(t *testing.T) {
	lines := filetest.Read(t, "testdata/no_errors.txt")
	for line := range strings.Lines(string(lines)) {
		if r := textOf(t, line); r.Cause != "" && r.Cause != "unexplained" {
			t.Errorf("%s by %s: %s", r.Cause, r.StatedBy, line)
		}
	}
	if r := textOf(t, string(lines)); r.Cause != "" && r.Cause != "unexplained" {
		t.Errorf("all lines: %s by %s, status %d", r.Cause, r.StatedBy, r.Status)
	}
	for _, x := range transport {
		r := textOf(t, string(lines)+x.text)
		must.Equal(t, r.Cause, x.want, "all lines: by %s instead of %s: %s", r.StatedBy, x.want, x.text)
	}
}

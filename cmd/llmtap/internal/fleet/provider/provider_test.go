package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// shared is the directory of recorded traffic and rules next to the repository.
const shared = "../../../../../../shared"

// post sends messages and returns status and body.
func post(t *testing.T, path, messages string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	body := `{"model":"m","messages":` + messages + `}`
	New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path+"/chat/completions", strings.NewReader(body)))
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
	return w.Code, w.Body.String()
}

// Error texts as recorded from the providers (RULES.md 2.1 and 2.4).
func TestRejections(t *testing.T) {
	const (
		called = `{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		reply  = `{"role":"tool","tool_call_id":"call_1","content":"ok"}`
	)
	// f takes OpenAI's message and param, null if empty, and DeepSeek's message.
	f := func(messages, openAIText, param, deepSeekText string) {
		t.Helper()
		for path, want := range map[string]apiError{
			OpenAIPath:   {Message: openAIText, Type: "invalid_request_error", Param: &param},
			DeepSeekPath: {Message: deepSeekText, Type: "invalid_request_error"},
		} {
			status, body := post(t, path, messages)
			if want.Message == "" {
				must.Equal(t, status, 200, "%s: %s: status: %s", path, messages, body)
				continue
			}
			var got struct{ Error apiError }
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != 400 {
				t.Errorf("%s: %s: status %d: %s", path, messages, status, body)
			}
			got.Error.Code = nil
			must.Agree(t, cmp.Diff(want, got.Error, cmp.AllowUnexported(apiError{})), path, messages)
		}
	}
	// Orphan reply.
	f(`[{"role":"user","content":"q"},{"role":"assistant","content":""},`+reply+`]`,
		"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", "messages.[2].role",
		"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
	// Missing reply in the middle of a conversation.
	f(`[`+called+`,{"role":"user","content":"q"},`+reply+`]`,
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1", "messages.[2].role",
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)")
	// Unknown id.
	f(`[`+called+`,{"role":"tool","tool_call_id":"call_2","content":"ok"}]`,
		"Invalid parameter: 'tool_call_id' of 'call_2' not found in 'tool_calls' of previous message.", "messages.[2].tool_call_id",
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)")
	// Duplicate reply.
	f(`[`+called+`,`+reply+`,`+reply+`]`,
		"Invalid parameter: Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and messages[3].", "messages.[3].tool_call_id",
		"Duplicate value for 'tool_call_id' of call_1 in message[3]")
	// No tool_call_id.
	f(`[`+called+`,{"role":"tool","content":"ok"}]`,
		"Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.", "messages.[2].tool_call_id",
		"Failed to deserialize the JSON body into the target type: messages[2]: missing field `tool_call_id` at line 1 column 209")
	// Arguments not a string.
	f(`[`+strings.Replace(called, `"{}"`, `{"a":1}`, 1)+`,`+reply+`]`,
		"Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.", "messages[1].tool_calls[0].function.arguments",
		"Failed to deserialize the JSON body into the target type: messages[1]: invalid type: map, expected a string at line 1 column 181")
	// Content of a wrong type.
	f(`[`+called+`,{"role":"tool","tool_call_id":"call_1","content":{"a":1}}]`,
		"Invalid type for 'messages[2].content': expected one of a string or array of objects, but got an object instead.", "messages[2].content",
		"Failed to deserialize the JSON body into the target type: messages[2]: invalid type: map, expected a string at line 1 column 236")
	// Roles.
	f(`[{"role":"developer","content":"s"},{"role":"user","content":"q"}]`, "", "",
		"Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`, `latest_reminder` at line 1 column 59")
	f(`[{"role":1}]`,
		"Invalid type for 'messages[0].role': expected a string, but got a number instead.", "messages[0].role",
		"Failed to deserialize the JSON body into the target type: messages[0]: invalid type: integer, expected a string at line 1 column 35")
	f(`[]`, "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.", "messages", "Empty input messages")
	f(`[`+called+`,`+reply+`]`, "", "", "")
}

// enforced are the rules that the provider checks.
var enforced = []string{
	"orphan_tool_reply", "tool_reply_before_call", "late_tool_reply", "unknown_tool_call_id", "missing_tool_reply",
	"duplicate_tool_reply", "missing_tool_call_id", "arguments_not_string", "tool_content_not_string",
}

func TestExamples(t *testing.T) {
	data, err := os.ReadFile(shared + "/spec/examples.json")
	if err != nil {
		t.Skipf("SKIPPED: no shared rules: %v", err)
	}
	var examples []struct {
		Rule, Dialect    string
		Violating, Fixed struct{ Messages json.RawMessage }
	}
	must.Do(t, json.Unmarshal(data, &examples))
	checked := 0
	for _, ex := range examples {
		if ex.Dialect != "openai_chat" {
			continue
		}
		for _, path := range []string{OpenAIPath, DeepSeekPath} {
			status, body := post(t, path, string(ex.Fixed.Messages))
			must.Equal(t, status, 200, "%s: %s: status for the valid history: %s", path, ex.Rule, body)
			if slices.Contains(enforced, ex.Rule) {
				checked++
				status, _ := post(t, path, string(ex.Violating.Messages))
				must.Equal(t, status, 400, "%s: %s: status for the invalid history", path, ex.Rule)
			}
		}
	}
	must.Equal(t, checked, 2*len(enforced), "invalid histories checked")
}

func TestNotJSON(t *testing.T) {
	f := func(path, body, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path+"/chat/completions", strings.NewReader(body)))
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	f(OpenAIPath, `{"messages":`, "We could not parse the JSON body of your request.")
	f(OpenAIPath, `{}`, "you must provide a model parameter")
	f(DeepSeekPath, `nonsense`, "Failed to parse the request body as JSON")
	f(DeepSeekPath, `{}`, "missing field `model`")
}

func TestUnknownPath(t *testing.T) {
	w := httptest.NewRecorder()
	New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody))
	io.Copy(io.Discard, w.Body)
	must.Equal(t, w.Code, http.StatusNotFound, "status")
}

// Error bodies equal those of the real providers, byte for byte.
func TestRecordedBodies(t *testing.T) {
	recorded := make(map[string]string)
	recordedtest.Lines(t, recordedtest.Errors, func(_ int, line []byte) {
		e := must.JSON[struct{ ID, Body string }](t, line)
		recorded[e.ID] = e.Body
	})
	const user = `{"role":"user","content":"q"}`
	f := func(id, path, messages string) {
		t.Helper()
		_, got := post(t, path, messages)
		must.Equal(t, got, recorded[id], "%s", id)
	}
	f("openai-086", OpenAIPath, `[`+user+`,{"role":"tool","tool_call_id":"c","content":""}]`)
	f("openai-027", OpenAIPath, `[`+user+`,`+user+`,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]}]`)
	f("deepseek-009", DeepSeekPath, `[`+user+`,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},`+user+`]`)
}

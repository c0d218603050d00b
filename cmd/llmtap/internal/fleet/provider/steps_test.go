package provider

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The task determines tools, arguments and the number of parallel calls.
func TestSteps(t *testing.T) {
	f := func(parallel, task string, want ...string) {
		t.Helper()
		text, _ := json.Marshal(task)
		body := `{"model":"m",` + parallel + `"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"write"}}],` +
			`"messages":[{"role":"user","content":` + string(text) + `}]}`
		w := httptest.NewRecorder()
		New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, OpenAIPath+"/chat/completions", strings.NewReader(body)))
		var a wireAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || len(a.Choices) != 1 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		var got []string
		for _, c := range a.Choices[0].Message.ToolCalls {
			got = append(got, c.Function.Name+" "+c.Function.Arguments)
		}
		must.Equal(t, strings.Join(got, "; "), strings.Join(want, "; "), "%s %q: calls", parallel, task)
	}
	const task = "Do it:\n- read {\"path\": \"a.go\"}\n- write it\n- read {broken\n- read {}\n- write {\"path\": \"b.go\"}"
	f(`"parallel_tool_calls":false,`, task, `read {"path": "a.go"}`)
	f(`"parallel_tool_calls":true,`, task,
		`read {"path": "a.go"}`, `write {"step":"write it"}`, `read {"step":"read {broken"}`, `read {}`, `write {"path": "b.go"}`)
	f(`"parallel_tool_calls":true,`, "Nothing to do.")
}

// The scripted model of the Messages API calls the tools of the remaining steps, also those of a task in blocks.
func TestStepsInBlocks(t *testing.T) {
	f := func(choice, messages string, want ...string) {
		t.Helper()
		body := `{"model":"m","max_tokens":9,` + choice + `"tools":[{"name":"read","input_schema":{}},{"name":"write","input_schema":{}}],"messages":[` + messages + `]}`
		w := httptest.NewRecorder()
		New(Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, AnthropicPath+"/v1/messages", strings.NewReader(body)))
		var a struct {
			StopReason string `json:"stop_reason"`
			Content    []struct {
				Type, Name string
				Input      json.RawMessage
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || (a.StopReason == "tool_use") != (len(want) > 0) {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		var got []string
		for _, b := range a.Content {
			if b.Type == "tool_use" {
				got = append(got, b.Name+" "+string(b.Input))
			}
		}
		must.Equal(t, strings.Join(got, "; "), strings.Join(want, "; "), "%s %s: calls", choice, messages)
	}
	const one, all = `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},`, `"tool_choice":{"type":"auto","disable_parallel_tool_use":false},`
	const task = `{"role":"user","content":[{"type":"text","text":"Do it:\n- read {\"path\":\"a.go\"}\n- write {}"}]}`
	const first = `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}`
	f(one, task, `read {"path":"a.go"}`)
	f(all, task, `read {"path":"a.go"}`, `write {}`)
	f(one, task+first, `write {}`)
	f(one, `{"role":"user","content":"Nothing to do."}`)
}

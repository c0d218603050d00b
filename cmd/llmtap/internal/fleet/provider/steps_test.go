package provider

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s %q: calls %q, want %q", parallel, task, got, want)
		}
	}
	const task = "Do it:\n- read {\"path\": \"a.go\"}\n- write it\n- read {broken\n- read {}\n- write {\"path\": \"b.go\"}"
	f(`"parallel_tool_calls":false,`, task, `read {"path": "a.go"}`)
	f(`"parallel_tool_calls":true,`, task,
		`read {"path": "a.go"}`, `write {"step":"write it"}`, `read {"step":"read {broken"}`, `read {}`, `write {"path": "b.go"}`)
	f(`"parallel_tool_calls":true,`, "Nothing to do.")
}

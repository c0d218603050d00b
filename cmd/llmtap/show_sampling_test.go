package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Of a service whose texts are sampled, show has all texts up to a call that fails, and after it. Of others it says why there are none.
func TestShowSampled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "llmtap.yaml")
	must.Do(t, os.WriteFile(file, []byte("content:\n  sampling:\n    - {service: \"planner-*\", share: 0.1}\n"), 0o600))
	s := showTest{newCommandTest(t, "--config", file)}
	talk := func(conversation string, n, fails int) (ids []string) {
		history := []string{`{"role":"system","content":"You plan."}`, `{"role":"user","content":"Which port?"}`}
		for i := 1; i <= n; i++ {
			said := fmt.Sprintf(`{"role":"assistant","content":"I have thought about it, and answer %d is port 80."}`, i)
			status, answer := 200, `{"id":"a","choices":[{"message":`+said+`,"finish_reason":"stop"}]}`
			if i == fails {
				status, answer = 500, `{"error":{"message":"boom"}}`
			}
			ids = append(ids, s.send(conversation, chatURL, event.CaptureFull, status, `{"model":"gpt-4.1","messages":[`+strings.Join(history, ",")+`]}`, answer))
			if i != fails {
				history = append(history, said, fmt.Sprintf(`{"role":"user","content":"And number %d?"}`, i))
			}
		}
		return ids
	}
	failing, healthy := talk("failing", 10, 8), talk("healthy", 3, 0)
	s.waitStored(s.n)
	const why = "1 in 10 is stored"
	for i, id := range failing {
		out, _, _ := s.show(id, "--full")
		want := []string{"You plan.", "Which port?"}
		for k := range min(i, 7) {
			want = append(want, fmt.Sprintf("answer %d is", k+1))
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("call %d lacks %q:\n%s", i+1, text, out)
			}
		}
		if body, _, code := s.show(id, "--format", "body"); code != command.ExitOK || compact(t, body) != s.bodies[id] {
			t.Errorf("call %d: exit code %d, body %s", i+1, code, body)
		}
		if strings.Contains(words(out), why) != (i < 6) {
			t.Errorf("call %d: %s", i+1, out)
		}
	}
	for _, id := range healthy {
		out, errs, code := s.show(id)
		if code == command.ExitOK || !strings.Contains(words(out), why) || strings.Contains(out, "port") {
			t.Errorf("exit code %d %s\n%s", code, errs, out)
		}
	}
	out, _, _ := s.show("healthy")
	if n := strings.Count(words(out), why); n != 3 {
		t.Errorf("%d reasons in\n%s", n, out)
	}
	if out, _, _ = s.show("failing"); strings.Contains(strings.ToLower(out), "not stored") {
		t.Error(out)
	}
	must.Wait(t, "doctor says how many calls are stored", func() bool { // in a moment, when the second of the calls is counted
		out, _, _ = s.llmtap("doctor")
		return strings.Contains(out, "content.sampling: planner-api 10")
	}, func() any { return out })
}

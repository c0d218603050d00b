package analyzer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Recorded conversations of real agents are played turn by turn. The agents saved answers unchanged, so no root cause may be
// found, with and without a conversation id. Played again by an agent that saves answers without their calls, each reply
// without a call has that root cause.
func TestRealConversations(t *testing.T) {
	played, turns, orphans, explained := 0, 0, 0, 0
	recordedtest.Lines(t, recordedtest.Conversations, func(n int, line []byte) {
		var c struct {
			Format   string `json:"format"`
			Messages []msg  `json:"messages"`
		}
		must.Do(t, json.Unmarshal(line, &c))
		if c.Format != "openai.chat" || len(c.Messages) < 4 || testing.Short() && played > 200 {
			return
		}
		played++
		id := ""
		if n%2 == 0 {
			id = fmt.Sprintf("c%d", n)
		}
		s, lossy := newStream(id), newStream(id)
		var saved []msg
		for i, m := range c.Messages {
			if m["role"] != "assistant" {
				saved = append(saved, m)
				continue
			}
			if i > 0 {
				s.ok(m, c.Messages[:i]...)
				lossy.ok(m, saved...)
			}
			saved = append(saved, msg{"role": m["role"], "content": m["content"]})
		}
		turns += s.calls
		for _, f := range run(t, analyzer.Default(), s.steps).Findings {
			if f.RootCause == "tool_calls_dropped_on_save" || f.RootCause == "history_truncated_mid_pair" {
				t.Errorf("line %d: %s %s: %s: %s", n, f.Rule, f.ToolCallID, f.RootCause, f.Evidence)
			}
		}
		for _, f := range run(t, analyzer.Default(), lossy.steps).Findings {
			if f.Rule == "orphan_tool_reply" {
				orphans++
				if f.RootCause == "tool_calls_dropped_on_save" {
					explained++
				} else {
					t.Errorf("line %d, message %d: %s has root cause %q", n, f.Message, f.ToolCallID, f.RootCause)
				}
			}
		}
	})
	t.Logf("%d conversations, %d turns; of %d replies without a call %d explained", played, turns, orphans, explained)
}

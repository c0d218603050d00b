package analyzer_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
)

// Recorded conversations of real agents are played turn by turn. They saved what the model said, so no root cause may
// be found in them, with and without a conversation id. Played again by an agent that saves answers without their
// calls, each reply without a call has that root cause.
func TestRealConversations(t *testing.T) {
	const path = "../../shared/data/conversations.jsonl.gz"
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: real conversations are not played", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	played, turns, orphans, explained := 0, 0, 0, 0
	for n := 0; lines.Scan(); n++ {
		var c struct {
			Format   string `json:"format"`
			Messages []msg  `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Format != "openai.chat" || len(c.Messages) < 4 || testing.Short() && played > 200 {
			continue
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
				t.Errorf("line %d: %s %s: %s: %s", n+1, f.Rule, f.ToolCallID, f.RootCause, f.Evidence)
			}
		}
		for _, f := range run(t, analyzer.Default(), lossy.steps).Findings {
			if f.Rule == "orphan_tool_reply" {
				orphans++
				if f.RootCause == "tool_calls_dropped_on_save" {
					explained++
				} else {
					t.Errorf("line %d, message %d: %s has root cause %q", n+1, f.Message, f.ToolCallID, f.RootCause)
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d conversations, %d turns; of %d replies without a call %d explained", played, turns, orphans, explained)
}

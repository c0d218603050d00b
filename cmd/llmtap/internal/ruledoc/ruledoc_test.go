package ruledoc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

func TestWrite(t *testing.T) {
	f := func(format string, ids []string, want ...string) {
		t.Helper()
		var b strings.Builder
		if err := Write(&b, ids, format); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%v as %s: no %q in\n%s", ids, format, w, b.String())
			}
		}
	}
	f(command.Text, nil, "\nmissing_tool_reply ", "\nExplain one: llmtap rules ID\n")
	f(command.Text, []string{"orphan_tool_reply"}, "orphan_tool_reply: ", "\nFix: ", "\nRejected by: openai_chat/openai, ")

	var b strings.Builder
	var all []rule
	if err := Write(&b, nil, command.JSON); err != nil || json.Unmarshal([]byte(b.String()), &all) != nil || len(all) != len(rules.All) {
		t.Errorf("%v: %d rules as JSON, want %d", err, len(all), len(rules.All))
	}
	if err := Write(&b, []string{"orphan_reply"}, command.Text); err == nil || !strings.Contains(err.Error(), `no rule "orphan_reply"; did you mean `) {
		t.Error(err)
	}
}

func TestWriteSignals(t *testing.T) {
	var b strings.Builder
	if err := WriteSignals(&b, command.Text); err != nil || strings.Count(b.String(), "\n") != len(signals.All) {
		t.Errorf("%v\n%s", err, b.String())
	}
}

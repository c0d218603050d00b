package ruledoc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// write returns the documentation of ids, or of kind, as format.
func write(t *testing.T, format, kind string, ids ...string) string {
	t.Helper()
	entries := must.Get(Select(ids, kind))(t)
	var b strings.Builder
	must.Do(t, Write(&b, entries, len(ids) > 0, format, &terminal.Style{Width: 80}))
	for line := range strings.Lines(b.String()) {
		if n := terminal.Columns(strings.TrimSuffix(line, "\n")); format == command.Text && n > 80 {
			t.Errorf("%v %s: line of %d columns: %s", ids, kind, n, line)
		}
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	f := func(kind string, ids []string, want ...string) {
		t.Helper()
		got := write(t, command.Text, kind, ids...)
		for _, w := range want {
			must.Contain(t, got, w, ids, "of", kind)
		}
	}
	f("", nil, "Rules: ", "\n  missing_tool_reply ", "\nCauses: ", "\n  context_length_exceeded ", "\nRoot causes: ", "\n  tool_calls_dropped_on_save ",
		"\nSignals: ", "\n  retry_storm ", "\nExplain one: llmtap rules ID\n")
	f("", []string{"orphan_tool_reply"}, "orphan_tool_reply (rule): ", "\nFix: ", "\nRejected by: openai_chat/openai, ")
	f("", []string{"retry_storm"}, "retry_storm (signal): One request was sent ")
	f("", []string{"tool_calls_dropped_on_save"}, "tool_calls_dropped_on_save (root cause): assistant message saved", "\nFix: Save the whole assistant message")
	f("", []string{"rate_limit"}, "rate_limit (cause): ", "\nFix: ")
	if got := write(t, command.Text, "signal"); strings.Contains(got, "orphan_tool_reply") || !strings.Contains(got, "retry_storm") {
		t.Errorf("signals only:\n%s", got)
	}
}

// Every entry is documented, and no id has two meanings of one kind.
func TestEntries(t *testing.T) {
	var all []Entry
	if err := json.Unmarshal([]byte(write(t, command.JSON, "")), &all); err != nil || len(all) != len(entries()) {
		t.Fatalf("%v: %d entries as JSON, want %d", err, len(all), len(entries()))
	}
	seen := map[string]bool{}
	for _, e := range all {
		if e.Title == "" || e.RejectedBy == nil || e.Fix == "" && e.Kind != "signal" && e.ID != "unknown_no_history" || headings[e.Kind] == "" {
			t.Errorf("incomplete: %+v", e)
		}
		if seen[e.Kind+" "+e.ID] {
			t.Errorf("two entries for %s", e.ID)
		}
		seen[e.Kind+" "+e.ID] = true
		write(t, command.Text, "", e.ID)
	}
	if csv := write(t, command.CSV, "signal"); !strings.HasPrefix(csv, "kind,id,title,doc,fix,rejected_by\nsignal,agent_loop,") {
		t.Errorf("CSV:\n%.300s", csv)
	}
}

func TestUnknown(t *testing.T) {
	for id, want := range map[string]string{
		"orphan_reply": `no rule, cause, root cause or signal "orphan_reply"; did you mean orphan_tool_reply?`, "retry_strom": "did you mean retry_storm?",
		"tool_calls_droped_on_save": "did you mean tool_calls_dropped_on_save?", "zzz": "llmtap rules lists all",
	} {
		must.Fail(t, must.Err(Select([]string{id}, "")), want, id)
	}
}

package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
)

// pairingRules are the rules about calls and replies, of which all findings of a scene have the root cause of the scene.
var pairingRules = []string{
	"orphan_tool_reply", "tool_reply_before_call", "late_tool_reply", "unknown_tool_call_id", "missing_tool_reply", "duplicate_tool_reply",
	"missing_tool_call_id", "malformed_tool_call", "duplicate_call_id_in_history", "duplicate_call_id_in_message",
}

// The root cause of one scene in every dialect, with and without a conversation id.
func TestRootCausesByDialect(t *testing.T) {
	f := func(name, want, scene string, except ...string) {
		t.Helper()
		for _, d := range dialectScenes() {
			for _, conversation := range []string{"c", ""} {
				if slices.Contains(except, d.name) || slices.Contains(except, d.name+"/"+conversation) {
					continue
				}
				s := d.play(conversation, lines(scene)...)
				_, findings, _ := latest(run(t, analyzer.Default(), s.steps))
				var got []string
				for _, f := range findings {
					if f.Severity == check.Signal || !slices.Contains(pairingRules, f.Rule) {
						continue
					}
					root := strings.TrimSpace(f.RootCause + " " + f.Confidence)
					if root != want {
						got = append(got, fmt.Sprintf("%s %s: %s (%s)", f.Rule, f.ToolCallID, root, f.Evidence))
					} else if !slices.Contains(got, root) {
						got = append(got, root)
					}
				}
				if len(got) != 1 || got[0] != want {
					t.Errorf("%s, %s, conversation %q: got\n%s\nwant %s", name, d.name, conversation, strings.Join(got, "\n"), want)
				}
			}
		}
	}

	const unsaved = "tool_calls_dropped_on_save high"
	f("the first answer is not saved", unsaved, `
		u go | a ; 1 f
		u go | t 1 | 400`)
	f("the first answer is not saved, with text and parallel calls", unsaved, `
		u go | a I look; 1 f, 2 f, 3 g
		u go | t 1 2 3 | 400`)
	f("an answer in a tool loop is not saved", unsaved, `
		s s | u go | a ; 1 f
		s s | u go | a ; 1 f | t 1 | a ; 2 f
		s s | u go | a ; 1 f | t 1 | t 2 | 400
		s s | u go | a ; 1 f | t 1 | t 2 | 400`)
	f("an answer with text and parallel calls in a tool loop is not saved", unsaved, `
		u go | a First; 1 f, 2 g
		u go | a First; 1 f, 2 g | t 1 2 | a Next; 3 f, 4 g
		u go | a First; 1 f, 2 g | t 1 2 | t 3 4 | 400`)
	f("the text of the answer is that of an older one", unsaved, `
		u go | a Let me see; 1 f
		u go | a Let me see; 1 f | t 1 | a Let me see; 2 g
		u go | a Let me see; 1 f | t 1 | t 2 | 400`)
	f("no answer is saved", unsaved, `
		u go | a ; 1 f
		u go | t 1 | a ; 2 g
		u go | t 1 | t 2 | a ; 3 h
		u go | t 1 | t 2 | t 3 | 400`)
	f("an answer is not saved, and later requests repeat it", unsaved, `
		u go | a ; 1 f
		u go | t 1 | a Done
		u go | t 1 | a Done | u thanks | a Bye
		u go | t 1 | a Done | u thanks | a Bye | u more | 400`)
	f("the request before was sent again", unsaved, `
		u go | a ; 1 f
		u go | a ; 1 f | t 1 | 500
		u go | a ; 1 f | t 1 | a ; 2 f
		u go | a ; 1 f | t 1 | t 2 | 400`)
	f("an answer is not saved, in the next turn of the user", unsaved, `
		u go | a ; 1 f
		u go | a ; 1 f | t 1 | a Done
		u go | a ; 1 f | t 1 | a Done | u again | a ; 2 f
		u go | a ; 1 f | t 1 | a Done | u again | t 2 | 400`)
	f("the reply precedes its call", "history_reordered high", `
		u go | a ; 1 f
		u go | t 1 | a ; 1 f | 400`)
	f("replies precede their calls", "history_reordered high", `
		u go | a ; 1 f, 2 g
		u go | t 1 2 | a ; 1 f, 2 g | u and? | 400`)
	f("a reply in a tool loop precedes its call", "history_reordered high", `
		u go | a ; 1 f
		u go | a ; 1 f | t 1 | a ; 2 g
		u go | a ; 1 f | t 1 | t 2 | a ; 2 g | 400`)
	f("some calls are not saved", unsaved, `
		u go | a ; 1 f, 2 g, 3 h
		u go | a ; 1 f, 3 h | t 1 2 3 | 400`, "gemini, no ids")
	f("the calls are not saved", unsaved, `
		u go | a Well; 1 f, 2 g
		u go | a Well | t 1 2 | 400`)
	f("the calls of a loop are not saved", unsaved, `
		u go | a One; 1 f
		u go | a One; 1 f | t 1 | a Two; 2 f
		u go | a One; 1 f | t 1 | a Two | t 2 | 400`)
	f("all before the reply is cut off", "history_truncated_mid_pair high", `
		s s | u go | a ; 1 f
		s s | t 1 | 400`, "gemini, no ids/", "chat, short ids/")
	f("all calls are new", "id_rewritten high", `
		u go | a ; 1 f, 2 g
		u go | a ; 7 f, 8 g | t 1 2 | 400`, "gemini", "gemini, no ids")
	f("all replies are new", "id_rewritten high", `
		u go | a ; 1 f, 2 g
		u go | a ; 1 f, 2 g | t 7 8 | 400`, "gemini", "gemini, no ids")
	f("all calls and replies are new", "id_rewritten high", `
		u go | a ; 1 f, 2 g
		u go | a ; 5 f, 6 g | t 7 8 | 400`, "gemini", "gemini, no ids")
}

package promptcache

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestWords(t *testing.T) {
	f := func(reason, element, detail, want string) {
		t.Helper()
		must.Equal(t, Words(reason, element, detail), want, "words")
	}
	f(SystemChanged, "system", DetailTime, "the system prompt changed (time)")
	f(ToolsChanged, "tools[3]", "search", "the tools changed, tools[3] (search)")
	f(ToolsReordered, "tools", "", "the tools are in another order")
	f(MessageEdited, "messages[4]", "", "an old message changed, messages[4]")
	f(MessageEdited, "messages", "", "an old message changed")
	f(ParameterChanged, "tool_choice", "", "the parameter tool_choice changed")
	f(RoutingMissing, "prompt_cache_key", "", "without prompt_cache_key, calls go to different machines")
	f(ModelSwitched, "model", "", "the model changed")
	f(Evicted, "", "", "the provider no longer had it")
	f("of_a_later_version", "", "", "of_a_later_version")
}

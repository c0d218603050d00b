package session

import (
	"math"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestUnmark(t *testing.T) {
	f := func(b, want string) {
		t.Helper()
		must.Equal(t, string(Unmark(nil, []byte(b))), want, "Unmark(%s)", b)
	}
	f(`{"content":"a"}`, `{"content":"a"}`)
	f(`{"text":"a","cache_control":{"type":"ephemeral"}}`, `{"text":"a"}`)
	f(`{"cache_control":null, "text":"a"}`, `{"text":"a"}`)
	f(`[{"text":"a","prompt_cache_breakpoint":{}},{"text":"b","cache_control":{},"prompt_cache_breakpoint":{}}]`, `[{"text":"a"},{"text":"b"}]`)
	f(`[{"text":"a"}, {"cachePoint":{"type":"default"}},{"text":"b","cache_control":{}}]`, `[{"text":"a"},{"text":"b"}]`)
	f(`[{"cachePoint":{}},{"text":"a"}]`, `[{"text":"a"}]`)
	f(`{"cachePoint":5,"cache_control":5}`, `{"cachePoint":5,"cache_control":5}`)
}

func TestShapedSize(t *testing.T) {
	body := []byte(`["~999999999:0123456789abcdef","~999999999:0123456789abcdef","~999999999:0123456789abcdef"]`)
	in := Request{Shaped: true, Body: body, Facts: &facts.Request{Messages: []facts.Message{{End: len(body)}}}}
	must.Equal(t, promptSize(&in.Facts.Messages[0], &in), math.MaxInt32, "size")
}

package stored

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCache(t *testing.T) {
	f := func(c Cache, want string) {
		t.Helper()
		must.Equal(t, c.String(), want, "cache")
	}
	f(Cache{Input: 3000, Read: 2048}, "read 2,048 of 3,000 input tokens")
	f(Cache{Input: 3000, Written: 2900, Hour: 900}, "read 0 of 3,000 input tokens; wrote 2,900, 900 of them for an hour")
	f(Cache{Input: 42_000, Reusable: 41_200, Missed: 41_200, Break: promptcache.SystemChanged, Element: "system", Detail: promptcache.DetailTime, Confidence: promptcache.Certain},
		"read 0 of 41,200 reusable tokens: the system prompt changed (time)")
	f(Cache{Input: 42_000, Reusable: 41_200, Missed: 1200, Break: promptcache.Evicted, Confidence: promptcache.Likely, Written: 10},
		"read 40,000 of 41,200 reusable tokens: probably the provider no longer had it; wrote 10")
	f(Cache{Reusable: 2, Missed: 2, Break: "of_a_later_version"}, "read 0 of 2 reusable tokens: of_a_later_version")

	if c := CacheOf(Row{"input_tokens": int64(3), "cache_reusable_tokens": nil}); c != nil {
		t.Errorf("an answer that does not say what was read: %v", c)
	}
	must.Equal(t, CacheOf(Row{"input_tokens": int64(3), "cached_tokens": int64(1), "cache_reusable_tokens": int64(0)}).String(), "read 1 of 3 input tokens", "cache")
}

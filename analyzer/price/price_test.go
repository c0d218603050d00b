package price

import (
	"fmt"
	"math"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTable(t *testing.T) {
	must.Do(t, Default().Validate())
	p := Table{{Provider: "openai", Model: `gpt_5*"`, Input: 1.25, Output: 10}, {Model: "*", Input: 1, CacheWrite: 1.25}, {Model: "*", Input: 1, CacheWrite: 1.25, CacheHour: 2}}
	must.Equal(t, p.Bound(), `[["openai","gpt\\_5%\"",1.25,0,10,1.25,1.25],["","%",1,0,0,1.25,1.25],["","%",1,0,0,1.25,2]]`, "Bound")
	must.Equal(t, Table{}.Bound(), "[]", "Bound without prices")
	p[0].Output, p[1].Model, p[2].CacheHour = -1, "", math.NaN()
	want := "prices[0].output: -1 is not a price\nprices[1].model: is empty; * matches any model\nprices[2].cache_hour: NaN is not a price"
	must.Equal(t, fmt.Sprint(p.Validate()), want, "Validate")
}

func TestMatches(t *testing.T) {
	f := func(pattern, name string, want bool) {
		t.Helper()
		must.Equal(t, Matches(pattern, name), want, "%s matches %s", pattern, name)
	}
	f("*", "", true)
	f("*", "gpt-5", true)
	f("gpt-5", "gpt-5", true)
	f("gpt-5", "gpt-5-mini", false)
	f("gpt-5*", "gpt-5-mini", true)
	f("gpt-5*", "my-gpt-5", false)
	f("*sonnet-4*", "eu.anthropic.claude-sonnet-4-5-v1:0", true)
	f("deepseek-c*t", "deepseek-chat", true)
	f("deepseek-c*t", "deepseek-ct", true)
	f("deepseek-c*t", "deepseek-c", false)
	f("a*b*b", "ab", false)
	f("a*b*b", "abxb", true)
	f("gpt_5", "gpt-5", false)
}

// The first matching row applies; a model without a price is unknown, and one that is free is not.
func TestLookup(t *testing.T) {
	l := NewLookup(append(Table{{Provider: "other", Model: "llama*"}}, Default()...))
	for range 2 {
		for _, model := range []string{"gpt-5-mini", "gpt-5-mini-2025-08-07"} {
			must.Equal(t, l.Of("openai", model).Output, 2, "%s", model)
		}
		haiku := l.Of("aws.bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0")
		must.Equal(t, [3]float64{haiku.Input, haiku.CacheWrite, haiku.CacheHour}, [3]float64{1, 1.25, 2}, "Bedrock")
		must.Equal(t, *l.Of("other", "llama-3"), Price{Provider: "other", Model: "llama*"}, "free")
		must.Equal(t, l.Of("openai", "llama-3") == nil, true, "of another provider")
		must.Equal(t, l.Of("openai", "gpt-5-tomorrow") == nil, true, "unknown")
	}
	p := Price{Input: 2, CachedInput: 0.5, Output: 8}
	tokens := Tokens{Input: 1000, Cached: 400, Output: 50}
	must.Equal(t, p.Microdollars(tokens), 1800, "1000 tokens, 400 of them cached, and 50")
	tokens.Written, tokens.Hour = 500, 200
	must.Equal(t, p.Microdollars(tokens), 1800, "cache writes without a price of their own")
	p.CacheWrite = 2.5
	must.Equal(t, p.Microdollars(tokens), 2050, "500 tokens written to the cache")
	p.CacheHour = 4
	must.Equal(t, p.Microdollars(tokens), 2350, "200 of them for an hour")
	if n := testing.AllocsPerRun(100, func() { l.Of("openai", "gpt-5-mini") }); n > 0 {
		t.Errorf("a lookup allocates %g times", n)
	}
}

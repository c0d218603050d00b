package price

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTable(t *testing.T) {
	must.Do(t, Default().Validate())
	p := Table{{"openai", `gpt_5*"`, 1.25, 0, 10}, {Model: "*"}}
	must.Equal(t, p.Bound(), `[["openai","gpt\\_5%\"",1.25,0,10],["","%",0,0,0]]`, "Bound")
	must.Equal(t, Table{}.Bound(), "[]", "Bound without prices")
	p[0].Output, p[1].Model = -1, ""
	want := "prices[0].output: -1 is not a price\nprices[1].model: is empty; * matches any model"
	if err := p.Validate(); err == nil || err.Error() != want {
		t.Errorf("Validate: %v, want %s", err, want)
	}
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
		must.Equal(t, l.Of("aws.bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0").Input, 1, "Bedrock")
		must.Equal(t, *l.Of("other", "llama-3"), Price{Provider: "other", Model: "llama*"}, "free")
		must.Equal(t, l.Of("openai", "llama-3") == nil, true, "of another provider")
		must.Equal(t, l.Of("openai", "gpt-5-tomorrow") == nil, true, "unknown")
	}
	p := Price{Input: 2, CachedInput: 0.5, Output: 8}
	must.Equal(t, p.Microdollars(1000, 400, 50), 1800, "1000 tokens, 400 of them cached, and 50")
	if n := testing.AllocsPerRun(100, func() { l.Of("openai", "gpt-5-mini") }); n > 0 {
		t.Errorf("a lookup allocates %g times", n)
	}
}

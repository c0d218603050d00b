package rules

import "testing"

func TestVersionAfter(t *testing.T) {
	f := func(model, family string, major, minor int, ok bool) {
		t.Helper()
		v, got := versionAfter(model, family)
		if v.major != major || v.minor != minor || got != ok {
			t.Errorf("%s after %s: %v, %v", model, family, v, got)
		}
		if v, got := versionAfter([]byte(model), family); v.major != major || got != ok {
			t.Errorf("%s after %s as bytes: %v, %v", model, family, v, got)
		}
	}
	f("gemini-3-pro-preview", "gemini-", 3, 0, true)
	f("google/gemini-3.1-pro-preview", "gemini-", 3, 1, true)
	f("gemini-2.5-flash", "gemini-", 2, 5, true)
	f("gemini-flash-latest", "gemini-", 0, 0, false)
	f("us.anthropic.claude-opus-4-6-v1", "opus-", 4, 6, true)
	f("claude-opus-4.6", "opus-", 4, 6, true)
	f("claude-opus-4-20250514", "opus-", 4, 0, true)
	f("claude-sonnet-5", "sonnet-", 5, 0, true)
	f("claude-3-5-sonnet-20241022", "sonnet-", 0, 0, false)
	f("Kimi-K2.5", "kimi-k", 2, 5, true)
	f("kimi-k2-0905-preview", "kimi-k", 2, 0, true)
	f("deepseek-v3.2-exp", "deepseek-v", 3, 2, true)
	f("gpt-4o", "gemini-", 0, 0, false)
	f("", "gemini-", 0, 0, false)
	f("gemini-", "gemini-", 0, 0, false)
}

func TestRefusesPrefill(t *testing.T) {
	f := func(model string, refuses, known bool) {
		t.Helper()
		if r, k := refusesPrefill(model); r != refuses || k != known {
			t.Errorf("%s refuses: %v, known: %v", model, r, k)
		}
	}
	f("claude-opus-4-6", true, true)
	f("us.anthropic.claude-opus-4-6-v1:0", true, true)
	f("claude-opus-4-7-20260416", true, true)
	f("claude-sonnet-5", true, true)
	f("claude-opus-4-5-20251101", false, true)
	f("claude-opus-4-20250514", false, true)
	f("claude-opus-4-1@20250805", false, true)
	f("claude-sonnet-4-5-20250929", false, true)
	f("claude-3-5-haiku-20241022", false, true)
	f("claude-3-opus-20240229", false, true)
	f("claude-2.1", false, true)
	f("claude-haiku-4-5-20251001", false, true)
	f("claude-sonnet-4-6", false, false)
	f("claude-opus-6", false, false)
	f("claude-haiku-5", false, false)
	f("glm-4.6", false, false)
	f("", false, false)
}

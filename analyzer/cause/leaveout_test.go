package cause

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// familyOfProvider maps a provider of the corpus to its table; other providers have only common.
var familyOfProvider = map[string]string{
	"openai": "openai", "azure": "openai", "github-copilot": "openai", "anthropic": "anthropic", "bedrock": "anthropic", "deepseek": "deepseek",
	"gemini": "gemini", "vertex": "gemini", "gemini-openai-compat": "gemini", "google-antigravity": "gemini",
	"mistral": "mistral", "qwen-dashscope": "qwen", "groq": "hosts", "xai": "hosts", "together": "hosts", "fireworks": "hosts",
	"moonshot": "hosts", "zhipu": "hosts", "minimax": "hosts", "cohere": "hosts", "ollama": "hosts", "vllm": "hosts", "sglang": "hosts", "llama.cpp": "hosts",
	"watsonx": "hosts", "volcengine": "hosts", "siliconflow": "hosts", "perplexity": "hosts", "lmstudio": "hosts", "openrouter": "hosts", "xiaomi-mimo": "hosts",
}

// without returns the wordings as if no text of provider had ever been seen: without its family's table, without rows
// whose source is one of its texts, and without rows of common that only its texts support.
func without(provider string, rs []record) *wordings {
	var seen []string
	for _, r := range rs {
		if r.Provider == provider {
			seen = append(seen, r.Source)
		}
	}
	family := familyOfProvider[provider]
	ofIt := func(r row) bool {
		if r.when != "" {
			return r.source == provider || r.source == family
		}
		return slices.ContainsFunc(seen, func(s string) bool {
			return strings.Contains(s, strings.TrimSuffix(r.source, ", recorded")) && r.source != "unlinked"
		})
	}
	keep := func(t *table) *table {
		return &table{family: t.family, rows: slices.DeleteFunc(slices.Clone(t.rows), ofIt)}
	}
	w := &wordings{common: keep(common)}
	for _, t := range all.families {
		if t.family != family {
			w.families = append(w.families, keep(t))
		}
	}
	return w
}

// TestLeaveOneProviderOut measures how well the rows learned from other providers explain the texts of one provider, the
// best available estimate for unseen texts; and how well common alone explains them.
func TestLeaveOneProviderOut(t *testing.T) {
	rs := corpus(t)
	type count struct{ all, exact, class, alone, aloneClass int }
	counts := map[string]*count{}
	total := &count{}
	none := &wordings{common: common}
	for _, provider := range providers(rs) {
		w, c := without(provider, rs), &count{}
		counts[provider] = c
		for _, r := range rs {
			if r.Provider != provider {
				continue
			}
			var buf [maxText + maxEdges]byte
			text := normalise(buf[:0], []byte(r.Body))
			in := Input{Status: r.Status, Text: []byte(r.Body), Variant: variantOf[r.Provider]}
			got, alone := classify(in, w, text), classify(in, none, text)
			for _, c := range []*count{c, total} {
				c.all++
				c.exact += one(got.ID == r.Cause)
				c.class += one(got.Class == Class(r.Cause))
				c.alone += one(alone.ID == r.Cause)
				c.aloneClass += one(alone.Class == Class(r.Cause))
			}
			if got.ID != r.Cause {
				t.Logf("%s: %s, labelled %s: %.180s", r.ID, got.ID, r.Cause, strings.Join(strings.Fields(r.Body), " "))
			}
		}
	}
	t.Log("left out               texts  exact  class | common alone: exact  class")
	for _, p := range append(providers(rs), "all") {
		c := counts[p]
		if c == nil {
			c = total
		}
		pc := func(n int) float64 { return 100 * float64(n) / float64(c.all) }
		t.Logf("%-22s %5d  %4.0f%%  %4.0f%% |               %4.0f%%  %4.0f%%", p, c.all, pc(c.exact), pc(c.class), pc(c.alone), pc(c.aloneClass))
	}
	if 100*total.exact < 88*total.all || 100*total.class < 92*total.all {
		t.Error("texts of a provider left out are explained worse than before")
	}
}

func providers(rs []record) []string {
	set := map[string]bool{}
	for _, r := range rs {
		set[r.Provider] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

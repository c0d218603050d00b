package cause

import (
	"bytes"
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

// sameProvider maps the names that one provider has in the other test set.
var sameProvider = map[string]string{"kimi": "moonshot", "glm": "zhipu", "qwen": "qwen-dashscope", "copilot": "github-copilot", "google": "gemini", "cloud-code-assist": "google-antigravity", "xiaomi": "xiaomi-mimo"}

// An evidence says which provider's texts support each phrase of the lexicon: its name, shared if several do, and "" if none
// does because the phrase is general English.
type evidence map[phraseOf]string

// A phraseOf is a phrase of a concept.
type phraseOf struct{ concept, phrase string }

const shared = "several"

func phraseEvidence(t *testing.T, rs []record) evidence {
	type said struct {
		provider string
		text     []byte
	}
	var texts []said
	for _, r := range rs {
		texts = append(texts, said{r.Provider, normalise(nil, []byte(r.Body))})
	}
	for _, s := range sentences(t, "testdata/unseen.jsonl") {
		p := s.Provider
		if same, ok := sameProvider[p]; ok {
			p = same
		}
		texts = append(texts, said{p, normalise(nil, []byte(s.Text))})
	}
	e := evidence{}
	for _, c := range all.concepts {
		for _, phrase := range c.phrases {
			text := []byte(strings.TrimSuffix(strings.TrimSuffix(phrase, "$"), "#"))
			for _, s := range texts {
				key := phraseOf{c.name, phrase}
				if by := e[key]; by != shared && by != s.provider && bytes.Contains(s.text, text) {
					if e[key] = s.provider; by != "" {
						e[key] = shared
					}
				}
			}
		}
	}
	return e
}

// without returns the wordings as if no text of provider had ever been seen, and the number of rows and phrases left out: the
// table of its family, rows limited to it or whose source is one of its texts, rows of common that only it supports, and the
// phrases of the lexicon that no other text contains. If e is nil, all phrases stay.
func without(provider string, rs []record, e evidence) (w *wordings, rows, phrases int) {
	var seen []string
	for _, r := range rs {
		if r.Provider == provider {
			seen = append(seen, r.Source)
		}
	}
	family := familyOfProvider[provider]
	ofIt := func(r row) bool {
		if strings.EqualFold(r.only, provider) {
			return true
		}
		if r.when != "" {
			return r.source == provider || r.source == family
		}
		return slices.ContainsFunc(seen, func(s string) bool {
			return strings.Contains(s, strings.TrimSuffix(r.source, ", recorded")) && r.source != "unlinked"
		})
	}
	keep := func(t *table) *table {
		kept := &table{family: t.family, rows: slices.DeleteFunc(slices.Clone(t.rows), ofIt)}
		rows += len(t.rows) - len(kept.rows)
		return kept
	}
	w = &wordings{common: keep(all.common)}
	for _, t := range all.families {
		if t.family == family {
			rows += len(t.rows)
			continue
		}
		w.families = append(w.families, keep(t))
	}
	// Every concept stays, so that the conditions of the rows remain valid.
	left := slices.Clone(all.concepts)
	for i, c := range left {
		var ps []string
		for _, phrase := range c.phrases {
			if e[phraseOf{c.name, phrase}] == provider {
				phrases++
			} else {
				ps = append(ps, phrase)
			}
		}
		if left[i].phrases = ps; len(ps) == 0 {
			left[i].phrases = []string{"\x00\x00\x00"}
		}
	}
	w.lexicon = newIndex(left)
	return w, rows, phrases
}

// TestLeaveOneProviderOut measures how well what was learned from other providers explains the texts of one provider. The
// true figure for a new provider is between the two that it prints: a phrase that only the texts of one provider contain may be
// a wording of that provider, or a name of its API or plain English that the lexicon would have without them.
func TestLeaveOneProviderOut(t *testing.T) {
	rs := corpus(t)
	phrasesOf := phraseEvidence(t, rs)
	type count struct{ all, exact, class, history, strictExact, strictClass, strictHistory, rows, phrases int }
	counts, total := map[string]*count{}, &count{}
	type tally struct{ right, all int }
	known := map[string]*tally{Stated + ", by " + concepts: {}, Stated: {}, Guessed: {}, None: {}}
	for _, provider := range providers(rs) {
		w, rows, _ := without(provider, rs, nil)
		strict, _, phrases := without(provider, rs, phrasesOf)
		c := &count{rows: rows, phrases: phrases}
		counts[provider] = c
		for _, r := range rs {
			if r.Provider != provider {
				continue
			}
			in := Input{Status: r.Status, Text: []byte(r.Body), Variant: variantOf[r.Provider], Provider: r.Provider}
			got, least := w.classify(in), strict.classify(in)
			how := least.Known
			if how == Stated && least.StatedBy == concepts {
				how += ", by " + concepts
			}
			known[how].all++
			known[how].right += one(least.ID == r.Cause)
			for _, c := range []*count{c, total} {
				c.all++
				c.exact += one(got.ID == r.Cause)
				c.class += one(got.Class == Class(r.Cause))
				c.history += one(ofHistory[got.Class] && !ofHistory[Class(r.Cause)])
				c.strictExact += one(least.ID == r.Cause)
				c.strictClass += one(least.Class == Class(r.Cause))
				c.strictHistory += one(ofHistory[least.Class] && !ofHistory[Class(r.Cause)])
			}
			if got.ID != r.Cause || least.ID != r.Cause {
				t.Logf("%s: %s, without its phrases %s, labelled %s: %.180s", r.ID, got.ID, least.ID, r.Cause, strings.Join(strings.Fields(r.Body), " "))
			}
		}
	}
	t.Log("Left out: the table of the provider's family, rows whose source is one of its texts, and rows of common that only it supports;")
	t.Log("on the right also the phrases of the lexicon that occur in its texts alone. False: a fault of the messages, which the label is not.")
	t.Log("left out               texts | rows  exact  class  false | phrases  exact  class  false")
	for _, p := range append(providers(rs), "all") {
		c := counts[p]
		if c == nil {
			c = total
		}
		pc := func(n int) float64 { return 100 * float64(n) / float64(c.all) }
		t.Logf("%-22s %5d | %4d  %4.0f%%  %4.0f%%  %4.1f%% | %7d  %4.0f%%  %4.0f%%  %4.1f%%", p, c.all,
			c.rows, pc(c.exact), pc(c.class), pc(c.history), c.phrases, pc(c.strictExact), pc(c.strictClass), pc(c.strictHistory))
	}
	for how, n := range known {
		t.Logf("%-18s without the phrases: right in %3d of %3d", how, n.right, n.all)
	}
	t.Logf("of %d texts: exact %d, class %d, false %d; without the phrases: exact %d, class %d, false %d",
		total.all, total.exact, total.class, total.history, total.strictExact, total.strictClass, total.strictHistory)
	if 100*total.exact < 96*total.all || 100*total.class < 98*total.all || 100*total.strictExact < 84*total.all || 100*total.strictClass < 89*total.all {
		t.Error("texts of a provider left out are explained worse than before")
	}
	if total.history > 0 || 100*total.strictHistory > total.all {
		t.Error("texts that report no fault of the messages are explained by one")
	}
}

// ofHistory contains the classes of faults of the messages.
var ofHistory = map[string]bool{"tool_pairing": true, "tool_shape": true, "role_order": true, "reasoning": true, "message_shape": true}

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

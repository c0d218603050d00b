package cause

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// variantOf is the judge that a record of the corpus names.
var variantOf = map[string]facts.Variant{
	"openai": facts.OpenAI, "azure": facts.Azure, "deepseek": facts.DeepSeek, "qwen-dashscope": facts.Qwen, "qwen": facts.Qwen,
	"gemini": facts.GeminiOpenAI, "vertex": facts.GeminiOpenAI, "gemini-openai-compat": facts.GeminiOpenAI, "gemini_openai": facts.GeminiOpenAI,
	"mistral": facts.Mistral, "groq": facts.Groq, "xai": facts.XAI, "openrouter": facts.OpenRouter, "minimax": facts.MiniMax,
	"moonshot": facts.Kimi, "kimi": facts.Kimi, "zhipu": facts.GLM, "glm": facts.GLM, "ollama": facts.Ollama, "vllm": facts.VLLM,
	"sglang": facts.SGLang, "llama.cpp": facts.LlamaCPP, "litellm": facts.LiteLLM, "together": facts.Together, "fireworks": facts.Fireworks,
}

type record struct {
	ID, Provider, Body, Cause string
	Status                    int
}

func corpus(t testing.TB) []record {
	t.Helper()
	file, err := os.Open("../../../shared/data/errors.jsonl")
	if err != nil {
		t.Skipf("SKIPPED, the corpus of error texts is not here: %v", err)
	}
	defer file.Close()
	var rs []record
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r record
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("decode record: %v", err)
		}
		rs = append(rs, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return rs
}

// TestCorpus classifies the public error texts. The status is no oracle there, and no findings are known, so this is
// what the text alone tells.
func TestCorpus(t *testing.T) {
	ours := map[string]bool{"openai": true, "azure": true, "deepseek": true, "qwen-dashscope": true, "gemini": true, "vertex": true, "gemini-openai-compat": true}
	hit, all, hitOurs, allOurs := 0, 0, 0, 0
	for _, r := range corpus(t) {
		got := Classify(Input{Status: r.Status, Text: []byte(r.Body), Variant: variantOf[r.Provider]})
		all++
		if ours[r.Provider] {
			allOurs++
		}
		if got.ID != r.Cause {
			t.Logf("%s (%d): %s by %q, labelled %s: %.200s", r.ID, r.Status, got.ID, got.StatedBy, r.Cause, r.Body)
			continue
		}
		hit++
		if ours[r.Provider] {
			hitOurs++
		}
	}
	t.Logf("OpenAI, Azure, DeepSeek, Qwen, Gemini: %d of %d; all: %d of %d", hitOurs, allOurs, hit, all)
	if hitOurs != allOurs {
		t.Errorf("%d of %d texts of the main providers", hitOurs, allOurs)
	}
	if hit*100 < all*97 {
		t.Errorf("only %d of %d texts", hit, all)
	}
}

// TestSamples classifies the samples of the specification, by the text and the rule that each stands for.
func TestSamples(t *testing.T) {
	var spec struct {
		Samples []struct{ Rule, Text, Dialect, Cause string }
	}
	readJSON(t, "../../../shared/spec/error_patterns.json", &spec)
	hit := 0
	for _, s := range spec.Samples {
		in := Input{Status: 400, Text: []byte(s.Text), Variant: variantOf[s.Dialect]}
		if OfRule(s.Rule) != "" {
			in.Rules = []string{s.Rule}
		}
		if got := Classify(in); got.ID == s.Cause {
			hit++
		} else {
			t.Logf("%s: %s by %q, sample says %s: %s", s.Rule, got.ID, got.StatedBy, s.Cause, s.Text)
		}
	}
	t.Logf("%d of %d", hit, len(spec.Samples))
}

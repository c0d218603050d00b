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
	ID, Provider, Body, Cause, Source string
	Status                            int
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

// finer holds texts whose label is coarser than what the set of causes offers.
var finer = map[string]string{"groq-004": "reasoning_content_forbidden", "groq-006": "reasoning_content_forbidden"}

// disagree holds texts whose label is not what the text says, with the reason.
var disagree = map[string]string{
	"groq-004":       "the registry has the finer reasoning_content_forbidden",
	"groq-006":       "the registry has the finer reasoning_content_forbidden",
	"qoder-001":      "an orphan's text; the thread found that content was null",
	"volcengine-003": "opaque; the thread names the fault",
	"zhipu-003":      "opaque; the thread names the fault",
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
		switch why := disagree[r.ID]; {
		case got.ID == r.Cause:
			hit++
			if ours[r.Provider] {
				hitOurs++
			}
		case why != "":
			t.Logf("%s: %s, labelled %s: %s", r.ID, got.ID, r.Cause, why)
		default:
			t.Errorf("%s (%d): %s by %q, labelled %s: %.200s", r.ID, r.Status, got.ID, got.StatedBy, r.Cause, r.Body)
		}
	}
	t.Logf("OpenAI, Azure, DeepSeek, Qwen, Gemini: %d of %d; all: %d of %d", hitOurs, allOurs, hit, all)
}

// disagreeRule holds samples whose label is not what the registry and the corpus say of the same text.
var disagreeRule = map[string]string{
	"role_alternation_broken":     "Gemini's text on a misplaced call turn is tool_turn_misplaced by the registry's definition",
	"reasoning_signature_invalid": "Anthropic's text on changed blocks is thinking_block_missing by the registry's definition",
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
		switch got, why := Classify(in), disagreeRule[s.Rule]; {
		case got.ID == s.Cause:
			hit++
		case why != "":
			t.Logf("%s: %s, sample says %s: %s", s.Rule, got.ID, s.Cause, why)
		default:
			t.Errorf("%s: %s by %q, sample says %s: %s", s.Rule, got.ID, got.StatedBy, s.Cause, s.Text)
		}
	}
	t.Logf("%d of %d", hit, len(spec.Samples))
}

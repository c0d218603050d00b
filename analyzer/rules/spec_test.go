package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rulestest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// everyone is every target without a model.
func everyone() (ts []wire.Target) {
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			ts = append(ts, wire.Target{Dialect: d, Variant: v})
		}
	}
	return append(ts, wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Ollama, Native: true})
}

func TestGrammars(t *testing.T) {
	for _, d := range wire.Dialects {
		if _, ok := grammars[d]; !ok && d != wire.OpenAIChat {
			t.Errorf("%s has no row in grammars", d)
		}
	}
}

// TestSeverity: a rule rejects for targets that the specification names without a mark, and for no others but those
// listed with their reason.
func TestSeverity(t *testing.T) {
	var rules []struct{ ID, Severity string }
	rulestest.ReadJSON(t, "rules.json", &rules)
	text := map[string]string{}
	for _, r := range rules {
		text[r.ID] = r.Severity
	}
	for _, r := range All {
		named := map[wire.Target]bool{}
		for _, w := range rejecting(strings.ReplaceAll(text[r.ID], "reject: as orphan_tool_reply", text["orphan_tool_reply"])) {
			for _, target := range rulestest.TargetsOf(w) {
				named[target] = true
			}
		}
		for _, target := range everyone() {
			got := r.Severity(target) == check.Reject
			name := targetName(target)
			_, otherwise := otherwise[r.ID][name]
			switch want := named[target]; {
			case got != want && !otherwise:
				t.Errorf("%s: rejected by %s: %v, the specification says %v", r.ID, name, got, want)
			case got == want && otherwise:
				t.Errorf("%s: %s is listed, but is as the specification says", r.ID, name)
			}
		}
		if r.Severity(wire.Target{Dialect: wire.Other, Variant: wire.OpenAI}) == check.Reject {
			t.Errorf("%s rejects in a dialect that is not judged", r.ID)
		}
	}
}

// rejecting are the words that a severity of the specification lists as rejecting without a mark: of "reject: a b(I)
// c(since v2; not v1) d; lenient: e" these are a, c and d.
func rejecting(s string) (words []string) {
	_, s, _ = strings.Cut(s, "reject: ")
	for s != "" {
		n := strings.IndexAny(s, " ;(")
		if n < 0 {
			n = len(s)
		}
		word, mark := s[:n], ""
		if s = s[n:]; strings.HasPrefix(s, "(") {
			mark, s, _ = strings.Cut(s[1:], ")")
		}
		s = strings.TrimLeft(s, " ;")
		switch {
		case strings.HasSuffix(word, ":"): // lenient:, accept:, unknown:
			return words
		case mark != "I" && mark != "U" && mark != "C" && mark != "R":
			words = append(words, word)
		}
	}
	return words
}

// targetName is the target in the form of a case's name.
func targetName(t wire.Target) string {
	s := string(t.Dialect) + "." + string(t.Variant)
	if t.Native {
		s += ".native"
	}
	return s
}

// otherwise holds, by rule and target, why we do not follow the list of the specification.
var otherwise = map[string]map[string]string{
	"arguments_invalid_json": {
		"openai_chat.vllm": "its main branch replaces the arguments by {}",
	},
	"assistant_content_missing": {
		"openai_responses.openai": "Missing required parameter: 'input[2].content'", "openai_responses.azure": asOpenAI,
	},
	"audio_input_unsupported": {
		"openai_chat.deepseek": notThere + "unknown variant `input_audio`, expected one of `text`, `image_url`, `file`",
	},
	"document_without_text": {
		"bedrock.bedrock": notThere + "A text block must be included when using documents",
	},
	"builtin_tools_not_enabled": {"gemini.gemini": notThere + "Please enable tool_config.include_server_side_tool_invocations"},
	"container_missing": {
		"anthropic.anthropic": notThere + "container_id is required when there are pending tool uses", "anthropic.vertex_anthropic": asAnthropic,
	},
	"forced_tool_choice": {
		"anthropic.anthropic":  notThere + "Thinking may not be enabled when tool_choice forces tool use",
		"openai_chat.deepseek": notThere + "Thinking mode does not support this tool_choice",
		"openai_chat.kimi":     notThere + "tool_choice 'required' is incompatible with thinking enabled",
		"openai_chat.qwen":     notThere + "The tool_choice parameter does not support being set to required or object in thinking mode",
		"openai_chat.meta":     notThere + "auto is the only tool choice",
		"bedrock.bedrock":      asAnthropic, "anthropic.vertex_anthropic": asAnthropic,
	},
	"reasoning_content_forbidden": {"openai_chat.cerebras": "property 'messages.2.assistant.reasoning_content' is unsupported"},
	"reasoning_option_unsupported": {
		"openai_chat.openai":  notThere + "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions",
		"openai_chat.kimi":    notThere + "invalid thinking: only type=enabled is allowed for this model",
		"openai_chat.meta":    notThere + "reasoning_effort none is refused",
		"anthropic.anthropic": notThere + "\"thinking.type.enabled\" is not supported for this model",
		"bedrock.bedrock":     asAnthropic, "anthropic.vertex_anthropic": asAnthropic,
	},
	"text_beside_open_tool": {
		"anthropic.anthropic": notThere + "documented: only tool_result blocks while a server tool has no result", "anthropic.vertex_anthropic": asAnthropic,
	},
	"duplicate_call_id_in_history": {
		"anthropic.anthropic": acrossTurns, "anthropic.vertex_anthropic": acrossTurns,
	},
	"first_message_role": {
		"anthropic.anthropic": onceOnly, "anthropic.vertex_anthropic": onceOnly,
	},
	"last_message_role": {
		"anthropic.anthropic": newModels, "anthropic.vertex_anthropic": newModels,
	},
	"missing_tool_call_id": {
		"gemini_interactions.gemini": "Missing call_id in content of type function_result",
		"gemini.gemini":              "function_response.name: Name cannot be empty",
	},
	"missing_tool_reply": {
		"openai_responses.deepseek_responses": "No tool output found for tool call call-a",
	},
	"null_content_with_calls": {
		"openai_chat.openai": "in 2023", "openai_chat.sglang": "fixed in 2025",
		"openai_chat.xai": "seen accepted by Grok 2 to 4 since",
	},
	"previous_response_unresolved": {
		"openai_chat.azure": "there is no previous_response_id in chat completions",
	},
	"role_alternation_broken": {
		"anthropic.anthropic": onceOnly, "anthropic.vertex_anthropic": onceOnly,
	},
	"system_not_first": {
		"openai_chat.mistral": "Unexpected role 'system' after role 'assistant'",
		"openai_chat.glm":     "of its endpoint in Anthropic's format",
	},
	"tool_content_missing": {
		"openai_chat.sglang": "old versions",
		"bedrock.bedrock":    "documented as required",
	},
	"tool_content_not_string": {
		"openai_chat.ollama.native": "its content must be a string as well",
	},
	"tool_content_part_unsupported": {
		"openai_chat.mistral": "its validators from version 15 on take images and documents",
	},
	"tool_reply_before_call": {
		"gemini_interactions.gemini": "as orphan_tool_reply",
		"openai_responses.openai":    anyOrder, "openai_responses.azure": anyOrder,
	},
	"unknown_tool_call_id": {
		"openai_chat.mistral":     "validators before version 13 accept it when the counts match",
		"openai_responses.openai": asOrphan, "openai_responses.azure": asOrphan,
	},
	"unsupported_role": {
		"gemini.gemini": twoRoles, "gemini.vertex_gemini": twoRoles,
		"openai_responses.openai": "Invalid value: 'tool'. Supported values are: 'assistant', …", "openai_responses.azure": asOpenAI,
	},
	"user_after_tool": {
		"openai_chat.mistral": "seen refused and seen accepted",
		"cohere.cohere":       "in v1 of its API",
	},
	"arguments_not_object":      {"gemini_interactions.gemini": "an object by its schema; the API came later"},
	"orphan_tool_reply":         {"gemini_interactions.gemini": "Please ensure that function response turn comes immediately after a function call turn"},
	"thought_signature_missing": {"gemini_interactions.gemini": "the same check as in generateContent"},
	"unexpected_message_field":  {"gemini_interactions.gemini": "id in a function_result, call_id in a function_call"},
}

const (
	notThere    = "the specification does not have the rule: "
	acrossTurns = "seen accepted in two turns; the recorded rejection is of one message"
	onceOnly    = "until 2024"
	newModels   = "from Opus 4.6 on, and no model is given here"
	anyOrder    = "the order of a pair is said not to matter"
	asOrphan    = "No tool call found for function call output: it does not tell an open turn from none"
	asAnthropic = "shares Anthropic's implementation"
	asOpenAI    = "shares OpenAI's implementation"
	twoRoles    = "documented: user and model, and no others"
)

// alsoFound are rules that a violating body breaks besides those that the specification lists with it.
var alsoFound = map[string]map[string]string{
	"arguments_not_object":  {"tools_missing_with_tool_history": noTools},
	"tool_result_not_first": {"tools_missing_with_tool_history": noTools},
}

const noTools = "the body has calls and no tools, which Anthropic was seen to refuse and to accept"

// TestSpecExamples: every violating body of the specification shows exactly the rules listed with it, and every fixed
// one no longer shows its rule, nor anything that the target would reject.
func TestSpecExamples(t *testing.T) {
	examples := rulestest.Examples(t)
	for _, e := range examples {
		t.Run(e.Rule, func(t *testing.T) {
			found := map[string]bool{}
			for _, v := range violations(t, e.Target, e.Violating) {
				found[v.Rule.ID] = true
			}
			want := slices.Clone(e.Expect)
			for id := range alsoFound[e.Rule] {
				want = append(want, id)
			}
			slices.Sort(want)
			var got []string
			for id := range found {
				got = append(got, id)
			}
			slices.Sort(got)
			must.Agree(t, cmp.Diff(want, got), "for", e.Dialect)
			for _, v := range violations(t, e.Target, e.Fixed) {
				if v.Predicted == check.Reject || v.Rule.ID == e.Rule {
					t.Errorf("the fixed body shows %s", say(v))
				}
			}
		})
	}
	t.Logf("%d examples", len(examples))
}

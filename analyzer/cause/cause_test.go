package cause

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestClassify(t *testing.T) {
	f := func(in Input, text string, want Cause) {
		t.Helper()
		in.Text = []byte(text)
		want.Class, want.Fix = Class(want.ID), Fix(want.ID, in.Text)
		must.Agree(t, cmp.Diff(want, Classify(in)), text)
	}
	orphan := `{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`
	deepSeek := Input{Status: 400, Variant: wire.DeepSeek}

	// stated by the text; the request confirms it, shows nothing, shows another defect
	in := deepSeek
	in.Rules = []string{"orphan_tool_reply"}
	f(in, orphan, Cause{ID: "orphan_tool_reply", Server: "deepseek", Known: Both, StatedBy: "openai", Rule: "orphan_tool_reply"})
	in.Rules = nil
	f(in, orphan, Cause{ID: "orphan_tool_reply", Server: "deepseek", Known: Stated, StatedBy: "openai", Rule: "orphan_tool_reply"})
	in.Rules = []string{"duplicate_tool_reply"}
	f(in, orphan, Cause{ID: "orphan_tool_reply", Server: "deepseek", Other: "duplicate_tool_reply", Known: Conflict, StatedBy: "openai", Rule: "orphan_tool_reply"})
	// a reply before its call is an orphan to a server that reads from the top
	in.Rules = []string{"tool_reply_before_call", "missing_tool_reply"}
	f(in, orphan, Cause{ID: "orphan_tool_reply", Server: "deepseek", Known: Both, StatedBy: "openai", Rule: "tool_reply_before_call"})

	// opaque text: the violated rules decide; without any, the failure is unexplained
	opaque := `[{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}]`
	gemini := Input{Status: 400, Variant: wire.GeminiOpenAI, Rules: []string{"arguments_not_string", "tool_content_not_string"}}
	f(gemini, opaque, Cause{ID: "arguments_not_string", Server: "gemini_openai", Known: Inferred, Rule: "arguments_not_string"})
	gemini.Rules = nil
	f(gemini, opaque, Cause{ID: "unexplained", Server: "gemini_openai", Known: None})
	f(Input{Status: 400}, "", Cause{ID: "unexplained", Known: None})

	// an ambiguous text: the violated rule decides
	wide := `{"error":{"message":"Invalid type for 'messages[2].content': expected one of a string or array of objects, but got an object instead.","code":"invalid_type"}}`
	f(Input{Status: 400}, wide, Cause{ID: "content_type_invalid", Known: Stated, StatedBy: "openai"})
	f(Input{Status: 400, Rules: []string{"tool_content_not_string"}}, wide, Cause{ID: "tool_content_type", Known: Both, StatedBy: "openai", Rule: "tool_content_not_string"})
	twice := "Duplicate value for 'tool_call_id' of call_00_x in message[2]"
	f(deepSeek, twice, Cause{ID: "duplicate_call_id", Known: Stated, StatedBy: "deepseek"})
	in.Rules = []string{"duplicate_tool_reply"}
	f(in, twice, Cause{ID: "duplicate_tool_reply", Known: Both, StatedBy: "deepseek", Rule: "duplicate_tool_reply"})

	for rule, text := range map[string]string{
		"duplicate_tool_reply": "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
		"unknown_tool_call_id": "Please ensure that function response turn comes immediately after a function call turn.",
	} {
		f(Input{Status: 400, Rules: []string{rule}}, text, Cause{ID: rule, Known: Both, StatedBy: "gemini", Rule: rule})
	}

	// a 400 that is no protocol fault never counts as one, whatever the request contains
	broken := Input{Status: 400, Rules: []string{"missing_tool_reply"}}
	f(broken, `{"error":{"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, Cause{ID: "auth", Known: Stated, StatedBy: "gemini"})
	f(broken, `Your credit balance is too low to access the API.`, Cause{ID: "billing", Known: Stated, StatedBy: "anthropic"})
	f(broken, `{'detail': 'Content Exists Risk'}`, Cause{ID: "content_policy", Known: Stated, StatedBy: "deepseek"})
	f(broken, `This model's maximum context length is 131072 tokens.`, Cause{ID: "context_length_exceeded", Known: Stated, StatedBy: "common"})

	// only the status decides
	f(Input{Status: 401}, "<html>nginx</html>", Cause{ID: "auth", Known: Stated, StatedBy: "status"})
	f(Input{Status: 402}, "", Cause{ID: "billing", Known: Stated, StatedBy: "status"})
	f(Input{Status: 413}, "", Cause{ID: "payload_too_large", Known: Stated, StatedBy: "status"})
	f(Input{Status: 429}, "slow down", Cause{ID: "rate_limit", Known: Stated, StatedBy: "common"})
	f(Input{Status: 503, Rules: broken.Rules}, "", Cause{ID: "server_error", Known: Stated, StatedBy: "status"})
	f(Input{Status: 500}, "Internal server error", Cause{ID: "server_error", Known: Stated, StatedBy: "status"})
	// servers that fail to parse the history answer 500
	f(Input{Status: 500, Rules: []string{"arguments_invalid_json"}}, "Internal server error", Cause{ID: "arguments_invalid_json", Known: Inferred, Rule: "arguments_invalid_json"})

	// no answer, and errors after a 200
	f(Input{}, "context deadline exceeded", Cause{ID: "no_response", Known: Stated, StatedBy: "status"})
	f(Input{Rules: broken.Rules}, "", Cause{ID: "no_response", Known: Stated, StatedBy: "status"})
	f(Input{Status: 200}, `{"error":{"message":"Upstream closed"}}`, Cause{ID: "stream_error", Known: Stated, StatedBy: "status"})
	f(Input{Status: 200}, `{"type":"overloaded_error","message":"Overloaded"}`, Cause{ID: "server_error", Known: Stated, StatedBy: "common"})
	f(Input{Status: 200}, `{"status_code":400,"code":"tool_use_failed"}`, Cause{ID: "model_tool_call_invalid", Known: Stated, StatedBy: "hosts"})

	// a text names a rule only if the rule is the whole cause
	f(Input{Status: 400}, "Invalid schema for function f: object schema missing properties", Cause{ID: "tool_schema_invalid", Known: Stated, StatedBy: "openai"})

	// one text, two meanings: the provider decides
	quota := "You exceeded your current quota, please check your plan and billing details."
	f(Input{Status: 429, Variant: wire.OpenAI}, quota, Cause{ID: "billing", Known: Stated, StatedBy: "common"})
	f(Input{Status: 429, Variant: wire.GeminiOpenAI}, quota+" head to: https://ai.google.dev/x", Cause{ID: "rate_limit", Known: Stated, StatedBy: "gemini"})
}

// TestMisleading: the known meaning at one provider wins, unless a violated rule confirms the literal one.
func TestMisleading(t *testing.T) {
	in := Input{Status: 200, Text: []byte("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"), Provider: "Qoder"}
	if c := Classify(in); c.ID != "content_null" || c.Known != Stated {
		t.Errorf("nothing found: %+v", c)
	}
	in.Rules = []string{"orphan_tool_reply"}
	if c := Classify(in); c.ID != "orphan_tool_reply" || c.Known != Both {
		t.Errorf("an orphan found: %+v", c)
	}
	in.Rules, in.Provider = nil, "another"
	c := Classify(in)
	must.Equal(t, c.ID, "orphan_tool_reply", "of another provider: %+v", c)
}

// TestWrapping: one text in the envelopes found in the wild.
func TestWrapping(t *testing.T) {
	for _, text := range []string{
		`An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.`,
		`400: an assistant message with "tool_calls" must be followed by tool messages`,
		`{"error":{"message":"[x] [400]: {\"error\":{\"message\":\"An assistant message with \\\"tool_calls\\\" must be followed by tool messages\"}}"}}`,
		`{"raw":"{\\\"a\\\":\\\"An assistant message with \\\\\\\"tool_calls\\\\\\\" must be followed\\\\n by tool messages\\\"}"}`,
		"Error code: 400 - {'error': {'message': \"An assistant message with 'tool_calls' must be followed by tool messages\", 'param': None}}",
		"An assistant message with         │\n│    “tool_calls” must be followed by\n  ⎿  tool messages responding",
		`An assistant message with \u0027tool_calls\u0027 must be followed by\u00a0tool messages`,
		"AN ASSISTANT MESSAGE WITH `TOOL_CALLS` MUST BE FOLLOWED BY TOOL MESSAGES",
		"\x1b[31mAn assistant message with \x1b[1m'tool_\x1b[0mcalls'\x1b[38;5;196m must be\x1b[K followed by tool messages\x1b[0m",
		"\x1b]8;;https://example.com\x07An assistant message\x1b]8;;\x1b\\ with 'tool_calls' must be followed by tool messages",
		`\u001b[33mAn assistant message with 'tool_calls' must\x1b[0m be \033[1mfollowed\e[m by tool messages`,
	} {
		must.Equal(t, Classify(Input{Status: 400, Text: []byte(text)}).ID, "missing_tool_reply", "%s", text)
	}
}

// TestContractions: with or without an apostrophe, a contraction is what it stands for.
func TestContractions(t *testing.T) {
	for text, want := range map[string]string{
		"it doesn't; they don’t.":         "it does not; they do not.",
		`isn\'t wasn\u2019t DOESN'T DONT`: "is not was not does not do not",
		"shouldnt":                        "should not",
		"parent isnt_set content":         "parent isnt_set content",
	} {
		must.Equal(t, string(normalise(nil, []byte(text))), want, "%s", text)
	}
	must.Equal(t, Cluster("it doesn't"), "it doesnt", "cluster")
}

// TestAddresses: the names in an address, and what follows a reference, state nothing; the extension of a file does.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"content.0 Input should be a valid dictionary\n For further information visit https://example.com/v/content None": "content_type_invalid",
		"Not done, see https://example.com/rate-limit/insufficient_quota?invalid=api_key":                                 "unexplained",
		"Timeout while downloading https://example.com/a.png.":                                                            "image_invalid",
		"Rate limit reached at https://example.com/v1, retry":                                                             "rate_limit",
	} {
		must.Equal(t, Classify(Input{Status: 400, Text: []byte(text)}).ID, want, "%s", text)
	}
}

// TestNames: a name in camel case is the name with underscores; the name of a company or an exception is one word.
func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"messages.0.toolResult.toolUseId":  "messages.0.tool_result.tool_use_id",
		`{"inputSchema":{"maxItems":1}}`:   "{input_schema:{max_items:1}}",
		"OpenAI LiteLLM BadRequestError":   "openai litellm badrequesterror",
		"s3Uri mimeType='x' MIMEType":      "s3uri mime_type=x mimetype",
		"item req_011CdufXo8 /8xznAGy4HcY": "item req_011cdufxo8 /8xznagy4hcy",
		"tool_callId finishReason\nUser":   "tool_call_id finish_reason user",
	} {
		must.Equal(t, string(normalise(nil, []byte(text))), want, "%s", text)
	}
}

// TestLongText: the fault is at the start, or at the end after a stack; between them is an echo of the request.
func TestLongText(t *testing.T) {
	fault := `litellm.BadRequestError: OpenAIException - {'error': {'message': "An assistant message with 'tool_calls' must be followed by tool messages"}}`
	stack := strings.Repeat("  File \"/app/main.py\", line 12, in run\n    return await call(**kwargs)\n", 1000)
	echo := strings.Repeat(`{"role":"user","content":"my invoice is too long"},`, 1000)
	for _, text := range []string{"Traceback (most recent call last):\n" + stack + fault, fault + "\n" + stack, fault + "\nrequest: [" + echo + "]"} {
		if c := Classify(Input{Status: 500, Text: []byte(text)}); c.ID != "missing_tool_reply" || c.Gateway != "litellm" {
			t.Errorf("%.60s… of %d bytes: %+v", text, len(text), c)
		}
	}
}

// TestHostile: no text makes Classify allocate.
func TestHostile(t *testing.T) {
	for _, unit := range []string{"[", "{", `\`, `"`, "'", `\"`, `[{"`, ",type:", ". a", "tool_calls must be ", "\xe3\x80", "\x00", "aB"} {
		text := bytes.Repeat([]byte(unit), 1<<20/len(unit))
		c := Cause{}
		if n := testing.AllocsPerRun(3, func() { c = Classify(Input{Status: 400, Text: text}) }); n > 0 {
			t.Errorf("1 MiB of %q takes %v allocations", unit, n)
		}
		if c.Class == "" {
			t.Errorf("1 MiB of %q: %+v", unit, c)
		}
		Cluster(string(text))
		Redact(text)
	}
}

// TestRegistry compares the registry, the tables and the specification.
func TestRegistry(t *testing.T) {
	for _, id := range IDs() {
		if s, fix := Meaning(id); Class(id) == "" || s == "" || fix == "" {
			t.Errorf("%s lacks a class, a meaning or a fix", id)
		}
	}
	seen := map[string]string{}
	for _, tab := range append(slices.Clone(all.families), all.common) {
		for _, r := range tab.rows {
			if _, ok := registry[r.cause]; !ok {
				t.Errorf("%s: %q: unknown cause %q", tab.family, r.words, r.cause)
			}
			for _, rule := range slices.Concat(r.openRules, r.agreeRules) {
				if OfRule(rule) == "" {
					t.Errorf("%s: %q: unknown rule %q", tab.family, r.words, rule)
				}
			}
			if by, ok := seen[r.words+r.when]; ok {
				t.Errorf("%q is in %s and in %s", r.words+r.when, by, tab.family)
			}
			seen[r.words+r.when] = tab.family
			if r.when != "" || r.cause == unexplained {
				continue
			}
			// A row must match its own words, unless an earlier row with the same cause does.
			if got, _ := all.match(bytes.Join(r.phrases, []byte(" x ")), Input{Provider: r.only}); got == nil || got.cause != r.cause {
				t.Errorf("%s: %q is hidden by an earlier row", tab.family, r.words)
			}
		}
	}
	var spec struct {
		Causes []struct {
			ID, Class string
			Rules     []string
		}
	}
	readJSON(t, "../../../shared/spec/causes.json", &spec)
	var ids []string
	for _, c := range spec.Causes {
		ids = append(ids, c.ID)
		must.Equal(t, Class(c.ID), c.Class, "%s: class", c.ID)
		known := slices.DeleteFunc(append([]string{}, rulesOf[c.ID]...), func(rule string) bool { return slices.Contains(newRules, rule) })
		must.Agree(t, cmp.Diff(c.Rules, known), c.ID, "rules differ")
	}
	slices.Sort(ids)
	must.Agree(t, cmp.Diff(ids, IDs()), "causes differ")
}

// newRules are rules that the specification does not have.
var newRules = []string{
	"audio_input_unsupported", "document_without_text", "builtin_tools_not_enabled", "container_missing", "forced_tool_choice",
	"reasoning_option_unsupported", "text_beside_open_tool",
}

// TestRulesHaveCauses: every rule implies a cause of the registry, so every violation can explain a failure.
func TestRulesHaveCauses(t *testing.T) {
	for _, r := range rules.All {
		if Class(r.Cause) == "" {
			t.Errorf("%s has the unknown cause %q", r.ID, r.Cause)
		}
		got := Classify(Input{Status: 400, Text: []byte("Bad Request"), Rules: []string{r.ID}})
		if got.ID != r.Cause || got.Known != Inferred || got.Rule != r.ID {
			t.Errorf("%s: %+v", r.ID, got)
		}
	}
}

// readJSON decodes a file of the shared material, or skips the test where it is absent.
func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("SKIPPED, the shared material is not here: %v", err)
	}
	must.Do(t, json.Unmarshal(b, v), "decode", path)
}

// The rule of tool_schema_invalid is about the number and the names of tools: a text about one schema does not name it.
func TestSchemaIsNoLimit(t *testing.T) {
	f := func(text, rule, known string, violated ...string) {
		t.Helper()
		got := Classify(Input{Status: 400, Text: []byte(text), Rules: violated})
		if got.ID != "tool_schema_invalid" || got.Rule != rule || got.Known != known {
			t.Errorf("%s: %+v", text, got)
		}
	}
	f("Invalid schema for function 'f': null is not of type \"array\".", "", Stated)
	f("tools.3: this schema keyword is not supported", "", Guessed)
	f("Invalid schema for function 'f': null is not of type \"array\".", "", Stated, "tools_limit_exceeded")
	f("Invalid 'tools': array too long. Expected an array with maximum length 128, but got 130 instead.", "tools_limit_exceeded", Both, "tools_limit_exceeded")
	f("tools: Tool names must be unique.", "tools_limit_exceeded", Stated)
	f("too many tools: at most 128 are allowed", "tools_limit_exceeded", Guessed)
}

package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// TestModels: rules that depend on the model, where the URL names it.
func TestModels(t *testing.T) {
	bedrock := wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI}
	gemini := wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI}
	f := func(rule *check.Rule, target wire.Target, model, body string, want check.Severity) {
		t.Helper()
		target.Model = model
		var got check.Severity
		for _, v := range check.NewChecker([]*check.Rule{rule}).Check(scan(t, target, []byte(body)), target, nil) {
			got = v.Predicted
		}
		must.Equal(t, got, want, "%s for %s", rule.ID, model)
	}

	twice := `{"messages": [{"role": "user", "content": [{"text": "Which port?"}]}, {"role": "user", "content": [{"text": "Which?"}]}]}`
	f(RoleAlternationBroken, bedrock, "", twice, check.Reject)
	f(RoleAlternationBroken, bedrock, "meta.llama3-2-1b-instruct-v1:0", twice, check.Reject)
	f(RoleAlternationBroken, bedrock, "us.anthropic.claude-haiku-4-5-20251001-v1:0", twice, check.Lenient)
	f(RoleAlternationBroken, bedrock, "amazon.titan-text-express-v1", twice, check.Lenient)
	f(RoleAlternationBroken, bedrock, "arn:aws:bedrock:us-east-1:1:inference-profile/x", twice, check.Lenient)

	last := `{"messages": [{"role": "user", "content": [{"text": "Which port?"}]}, {"role": "assistant", "content": [{"text": "Port"}]}]%s}`
	plain, withTools := fmt.Sprintf(last, ""), fmt.Sprintf(last, `, "toolConfig": {"tools": [{"toolSpec": {"name": "read_file"}}]}`)
	f(LastMessageRole, bedrock, "", plain, check.Reject)
	f(LastMessageRole, bedrock, "us.amazon.nova-2-lite-v1:0", plain, check.Lenient)
	f(LastMessageRole, bedrock, "anthropic.claude-3-sonnet-20240229-v1:0", plain, "")
	f(LastMessageRole, bedrock, "anthropic.claude-3-sonnet-20240229-v1:0", withTools, check.Lenient)
	afterReply := `{"messages": [{"role": "user", "content": [{"text": "Which port?"}]},
		{"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": "read_file", "input": {}}}]},
		{"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "PORT=80"}]}}]},
		{"role": "user", "content": [{"text": "Be brief."}]}, {"role": "assistant", "content": [{"text": "Port"}]}],
		"toolConfig": {"tools": [{"toolSpec": {"name": "read_file"}}]}}`
	f(LastMessageRole, bedrock, "anthropic.claude-3-sonnet-20240229-v1:0", afterReply, check.Reject)
	f(LastMessageRole, bedrock, "us.anthropic.claude-opus-4-6-v1", plain, check.Reject)

	first := `{"messages": [{"role": "assistant", "content": [{"text": "80 or 443?"}]}, {"role": "user", "content": [{"text": "80"}]}]}`
	f(FirstMessageRole, bedrock, "", first, check.Reject)
	f(FirstMessageRole, bedrock, "us.amazon.nova-2-lite-v1:0", first, check.Reject)
	f(FirstMessageRole, bedrock, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", first, check.Lenient)

	call := `{"contents": [{"role": "user", "parts": [{"text": "Which port?"}]},
		{"role": "model", "parts": [%s{"functionCall": {"name": "read_file", "args": {}}}]},
		{"role": "user", "parts": [{"functionResponse": {"name": "read_file", "response": {"text": "PORT=80"}}}]}]}`
	unsigned := fmt.Sprintf(call, "")
	f(ThoughtSignatureMissing, gemini, "gemini-3-pro-preview", unsigned, check.Reject)
	f(ThoughtSignatureMissing, gemini, "gemini-3.1-flash", unsigned, check.Reject)
	f(ThoughtSignatureMissing, gemini, "gemini-2.5-flash", unsigned, "")
	f(ThoughtSignatureMissing, gemini, "gemini-flash-latest", unsigned, "")
	f(ThoughtSignatureMissing, gemini, "", unsigned, "")
	signed := fmt.Sprintf(call, `{"functionCall": {"name": "read_file", "args": {}}, "thoughtSignature": "c2ln"}, `)
	f(ThoughtSignatureMissing, gemini, "gemini-3-pro-preview", signed, "")

	image := `{"messages": [{"role": "user", "content": [{"text": "Which port?"}]},
		{"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": "read_file", "input": {}}}]},
		{"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"image": {"format": "png", "source": {"bytes": "AA=="}}}]}}]}]}`
	f(ToolContentPartUnsupported, bedrock, "us.openai.gpt-5.6-sol", image, check.Reject)
	f(ToolContentPartUnsupported, bedrock, "us.mistral.pixtral-large-2502-v1:0", image, check.Reject)
	f(ToolContentPartUnsupported, bedrock, "cohere.command-r-v1:0", image, check.Lenient)
	f(ToolContentPartUnsupported, bedrock, "arn:aws:bedrock:us-east-1:1:inference-profile/x", image, check.Lenient)
	f(ToolContentPartUnsupported, bedrock, "us.anthropic.claude-opus-4-6-v1", image, "")
	f(ToolContentPartUnsupported, bedrock, "us.amazon.nova-2-lite-v1:0", image, "")
	f(ToolContentPartUnsupported, bedrock, "meta.llama4-maverick-17b-instruct-v1:0", image, "")

	vertex := wire.Target{Dialect: wire.Gemini, Variant: wire.VertexGemini}
	media := `{"contents": [{"role": "user", "parts": [{"text": "Which port?"}]}, {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
		{"role": "user", "parts": [{"functionResponse": {"name": "read_file", "response": {}, "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}}]}]}`
	f(ToolContentPartUnsupported, vertex, "gemini-2.5-pro", media, check.Reject)
	f(ToolContentPartUnsupported, gemini, "gemini-2.5-pro", media, check.Lenient)
	f(ToolContentPartUnsupported, vertex, "gemini-3-pro-preview", media, "")
	f(ToolContentPartUnsupported, vertex, "gemini-2.5-computer-use-preview-10-2025", media, "")
	f(ToolContentPartUnsupported, vertex, "gemini-flash-latest", media, "")

	chat := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI}
	sound := `[{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}]`
	f(AudioInputUnsupported, chat, "gpt-4.1-mini-2025-04-14", sound, check.Reject)
	f(AudioInputUnsupported, chat, "gpt-4o", sound, check.Reject)
	f(AudioInputUnsupported, chat, "gpt-5.2", sound, check.Lenient)
	f(AudioInputUnsupported, chat, "", sound, "")
	f(AudioInputUnsupported, chat, "mistral.voxtral-mini-3b-2507", sound, "")
	f(AudioInputUnsupported, chat, "gpt-4o-mini-audio-preview", sound, "")
	f(AudioInputUnsupported, chat, "gpt-audio-2025-08-28", sound, "")

	groq := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Groq}
	thought := `[{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "80", "reasoning": "80 it is."}]`
	f(ReasoningContentForbidden, groq, "llama-3.3-70b-versatile", thought, check.Reject)
	f(ReasoningContentForbidden, groq, "openai/gpt-oss-120b", thought, "")
	f(ReasoningContentForbidden, groq, "", thought, "")
}

// TestMany: with as many tools, calls and items as the facts keep, rules still end soon, and report no more than the
// first thousand.
func TestMany(t *testing.T) {
	const n = 60_000
	var tools, items strings.Builder
	for i := range n {
		fmt.Fprintf(&tools, `{"type": "function", "name": "tool_%d"},`, i)
		fmt.Fprintf(&items, `{"type": "function_call", "id": "fc_%d", "call_id": "call_%d", "name": "tool_%d", "arguments": "{}"},`, i/2, i, i+n/2)
	}
	body := fmt.Sprintf(`{"tools": [%s], "input": [%s]}`, strings.TrimSuffix(tools.String(), ","), strings.TrimSuffix(items.String(), ","))
	target := wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI}
	c, r := check.NewChecker([]*check.Rule{ToolNotDeclared, DuplicateItemID}), scan(t, target, []byte(body))
	found := c.Check(r, target, nil)
	if len(found) != 2000 || found[0].ToolName != "tool_60000" || found[1000].Message != 1 || found[1001].Message != 3 {
		t.Errorf("%d findings", len(found))
	}
}

// TestSetRulesAllocateNothing: rules that look things up allocate nothing once their memory has grown.
func TestSetRulesAllocateNothing(t *testing.T) {
	target := wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI}
	r := scan(t, target, []byte(`{"tools": [{"type": "function", "name": "read_file"}], "input": [
		{"role": "user", "content": "Which port?"},
		{"type": "reasoning", "id": "rs_1", "summary": []},
		{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file", "arguments": "{}"},
		{"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "PORT=80"}]}`))
	c := check.NewChecker(InOrder)
	if v := c.Check(r, target, nil); v != nil {
		t.Fatalf("found %v", v)
	}
	must.Equal(t, testing.AllocsPerRun(10, func() { c.Check(r, target, nil) }), 0, "allocations")
}

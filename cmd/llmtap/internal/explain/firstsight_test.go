package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// TestFirstSight explains public bug reports whose names were written down before anything of llmtap had seen them. At first
// sight, before the wordings and kinds that each set showed were added:
//
//	set    at        reports  right  wrong as a guess, or unexplained  wrong with certainty
//	first  be43e484  34       20     12                                2
//	2      acfc18a0  34       24     7                                 3
//	3      b60a6d08  36       27     8                                 1
//	4      801cab67  29       22     6                                 1
//	5      a4882268  41       30     10                                1
//	6      86915df8  36       30     5                                 1
//	7      d7e52faa  31       25     6                                 0
//	8      f2610dff  122      102    19                                1
//	9      22211046  35       28     6                                 1
//	10     9ee7123e  74       65     8                                 1
//	11     ec64e977  21       15     6                                 0
//	12     185a7ffd  36       30     6                                 0
//	13     91b2669f  23       19     3                                 1
//	14     dd701e79  77       66     7                                 4
//	15     f7b9be4f  68       59     9                                 0
//
// The goal of 85 % right at first sight is reached in sets 10, 14 and 15; the goal of at most 3 % wrong with certainty holds for
// sets 5 to 12 and 15, and for sets 14 and 15 together, of which 125 of 145 were right and 4 wrong with certainty. The figures of
// the test are those
// after learning. Sets 2 to 9 were taken as a search of issues returned them, without reports whose wording a table or a test had; of
// set 10, 11 have such a wording, and without them 54 of 63 were right. Sets 8 to 11 are of repositories that no set before has. Set
// 11 is small, and most of it are refusals of providers, in wordings that no table had. Of sets 2 to 11, 249 reports may say nothing:
// there "unexplained" is right, alone or beside another name. In sets 8 and 9, these are 108, of which 88 were right; of the others,
// 42 of 49. In sets 10 and 11, they are 44, of which 37 were right; of the others, 43 of 51.
//
// Sets 12 and 13 are the results of 39 and 18 queries of a search of issues and pull requests that are of 2025 or 2026, quote a refusal
// of a request, and show its cause. Left out are threads of earlier sets, and texts of which half of the sequences of six words are in
// an earlier set, in unseen.jsonl or in the shared data: of 76 texts, 36 are left, and of 41, 23. Set 13 was taken after what set 12
// showed was learned. A request of set 12 had lost a backslash, so that it did not show its fault.
//
// Set 14 was taken by a rule that was committed, with its queries, before the first of them was asked. The rule takes the
// first twelve results of each query, those of the last six in web pages, those of the others in issues and pull requests:
//
//	LM Studio 400 bad request agent second turn after tool call
//	vLLM 400 bad request tool message content agent
//	SGLang 400 bad request tool calls history
//	llama.cpp server 500 chat template exception tool call history
//	Ollama 400 invalid tool call arguments agent
//	Bedrock Converse ValidationException agent tool history
//	Gemini 400 INVALID_ARGUMENT function calling history
//	Vertex AI Claude 400 invalid_request_error messages
//	Mistral API 422 agent conversation messages
//	DeepSeek V4 400 error agent
//	Kimi K2 thinking 400 error agent
//	GLM-5 400 error tools agent
//	MiniMax M2 400 invalid params agent
//	Qwen DashScope 400 InvalidParameter agent
//	xAI Grok 400 error tools agent
//	Groq 400 invalid_request_error messages property
//	Cerebras 400 wrong_api_format
//	Together Fireworks 400 tool messages invalid
//	OpenRouter Provider returned error 400 tool history
//	LiteLLM proxy 400 BadRequestError Responses API input
//	Azure OpenAI 400 agent framework Responses API
//	GitHub Copilot 400 bad request model tools
//	Cloudflare Workers AI 400 tools messages
//	Vercel AI Gateway 400 invalid request
//	Semantic Kernel 400 bad request function call history
//	Spring AI 400 bad request tool call
//	LangGraph 400 error resume after interrupt
//	CrewAI 400 error message role
//	n8n AI Agent node bad request 400
//	Dify 400 error plugin model
//	Pydantic AI ModelHTTPError 400
//	OpenAI Agents SDK handoff 400 error
//	Cline Roo Code 400 error provider
//	Zed editor agent 400 error
//	opencode 400 error after compaction
//	Home Assistant conversation agent 400 error tools
//	JSON schema of MCP tool rejected 400
//	image in tool result 400 error
//	thinking signature 400 error switching models
//	new-api one-api 400 upstream error convert request
//	400 invalid_request_error agent tool call fix
//	API error 400 Claude Code tool use fix
//	Gemini API 400 function response fix
//	OpenAI Responses API 400 No tool output fix
//	DeepSeek reasoner 400 error fix
//	Bedrock ValidationException messages fix
//
// These left too few reports. The following queries, of issues and pull requests, were committed before the first of them was asked:
//
//	vLLM BadRequestError Error code: 400 tool_calls message validation
//	SGLang BadRequestError function arguments history
//	llama-server raise_exception role alternate tool
//	LM Studio error rendering prompt with jinja template
//	Ollama cannot unmarshal ChatRequest messages
//	text-generation-inference 422 template error messages
//	LocalAI TabbyAPI KoboldCpp 400 tool_calls
//	mlx server 400 tool messages
//	Grok failed to deserialize the JSON body into the target type
//	Fireworks API error tools function schema invalid_request_error
//	Cerebras API BadRequestError assistant message property
//	SambaNova NVIDIA NIM 400 validation error tool message
//	SiliconFlow Novita 20015 messages
//	Volcengine Ark InvalidParameter messages tool_calls
//	Tencent Hunyuan Baidu Qianfan 400 messages tool
//	StepFun MiMo API 400 param incorrect
//	GLM 1210 1214 参数有误 messages
//	Perplexity API 400 messages role order
//	Cohere API 400 invalid request tool results
//	watsonx Databricks 400 tool messages
//	Snowflake Cortex SAP AI Core 400 tool messages
//	Azure AI Foundry 422 extra_forbidden messages
//	Codex CLI 400 invalid_request_error input item
//	Claude Agent SDK resume session 400 invalid_request_error
//	Gemini Live API closed 1007 invalid argument
//	Gemini interactions API 400 invalid
//	Amazon Nova Converse validation error tool
//	Strands agent ValidationException converse
//	Goose agent request failed bad request 400
//	Aider litellm BadRequestError provider
//	OpenHands LLMBadRequestError
//	Letta agent 400 messages error
//	Mastra AI SDK AI_APICallError 400 messages
//	LlamaIndex Haystack function calling 400 error
//	smolagents InferenceClient 422 messages
//	Flowise LibreChat AnythingLLM agent 400
//	LobeChat ProviderBizError 400
//	Open WebUI 400 native tool error
//	Continue Kilo Code 400 tool error
//	Qwen Code iFlow 400 API error
//	Crush charm 400 bad request provider
//	JetBrains Junie Cursor BYOK 400 invalid request
//	OpenClaw agent 400 provider rejected request
//	Hermes agent HTTP 400 provider rejected
//	Responses API proxy translate 400 unsupported
//	structured output json schema 400 rejected model
//	reasoning effort thinking parameter 400 rejected model
//
// Of these results, the set has each one of 2025 or 2026 that quotes a refusal of a request and whose thread, as far as the search
// shows it, makes its cause clear; if it quotes several, those of different causes. A thread counts once. Left out, by a script, are
// threads that a file of testdata, a table of wordings or the shared data cites, and texts of which half of the sequences of six
// words are in one text of those; nothing else is. Of 144 texts, 77 are left. The script did not read the bodies of errors.jsonl: two
// of the 77, agentcore_prefill and ollama_array, have their words and should not be in the set; both were right.
//
// Set 14 has as many right as the goal wants, but more wrong with certainty. So set 15 was taken by the same rule after that was
// mended, and its queries, all of issues and pull requests, were committed before as well:
//
//	Codex 400 invalid_value input
//	Codex custom provider 400 bad request tools
//	opencode 400 error provider Bedrock
//	opencode 400 error GitHub Copilot
//	Claude Code 400 error Bedrock tool
//	Claude Code 400 error proxy third party model
//	cc-switch 400 error codex
//	CLIProxyAPI 400 error Claude
//	sub2api 400 error OpenAI responses
//	9router 400 error provider
//	OmniRoute 400 error translate
//	claude-code-router 400 error provider
//	new-api 400 error Gemini channel
//	Antigravity 400 error Claude
//	Kiro 400 error request body
//	AstrBot 400 error provider
//	QwenPaw 400 error model
//	LangChain 400 error Gemini function response
//	LangChain Anthropic 400 error tool_result
//	langchain4j 400 error tool
//	agno 400 error tool messages
//	pydantic-ai 400 error message history
//	Google ADK 400 error litellm
//	Vercel AI SDK 400 error Anthropic thinking
//	openai-agents 400 error session reasoning
//	LiteLLM 400 error Bedrock tool
//	LiteLLM 400 error Vertex Gemini schema
//	vLLM 400 error Anthropic messages endpoint
//	llama.cpp 400 error tool schema grammar
//	LM Studio 400 error Responses API
//	Ollama 400 error think tools
//	Cherry Studio 400 error MCP tools
//	SillyTavern 400 error prompt
//	Home Assistant LLM 400 error schema tool
//	VS Code Copilot BYOK 400 error tools
//	Xcode Swift LLM client 400 error tool
//
// Of 108 texts, 68 are left; most of them are of 2026 and of gateways and clients for agents. In sets 14 and 15, "unexplained" is right
// for 13 reports, alone or beside another name; all of them were right, and of the others, 112 of 132.
//
//	go test ./cmd/llmtap/internal/explain -run TestFirstSight -v
func TestFirstSight(t *testing.T) {
	for _, set := range must.Get(filepath.Glob("testdata/firstsight*.jsonl"))(t) {
		t.Run(filepath.Base(set), func(t *testing.T) { firstSight(t, set) })
	}
}

// TestLearned explains public reports of clients, gateways and providers that were read to broaden the wordings: those of learned
// before set 5, those of learned2 and learned3 before set 8, those of learned4 before set 10. The names of all but the first were
// written down before the first run, too, but the reports were chosen by kind, and those of learned3 and 56 of learned4 are recalled
// from libraries, without a thread to cite, so they say little about new texts. At the first run, 165 of 189, 143 of 186 and 195 of
// 222 were right, 0, 7 and 2 wrong with certainty. One name of learned3 was corrected afterwards, and two of learned4 got a second.
// The sentences of learned5 were made up before set 12, for the faults of messages in unusual words: 84 of 110 were right, none was
// wrong with certainty. Those of learned6 were made up before set 14, in the words of many servers and gateways: 225 of 278 were
// right, 2 were wrong with certainty, and six got a second name afterwards. Those of learned7 are variants of what set 15 showed.
func TestLearned(t *testing.T) {
	for _, set := range must.Get(filepath.Glob("testdata/learned*.jsonl"))(t) {
		t.Run(filepath.Base(set), func(t *testing.T) { firstSight(t, set) })
	}
}

func firstSight(t *testing.T, set string) {
	text := must.Get(os.ReadFile(set))(t)
	all, right, wrong := 0, 0, 0
	for line := range bytes.Lines(text) {
		var r struct {
			ID            string
			Status        int
			ErrorText     string `json:"error_text"`
			Request       json.RawMessage
			URL           string
			ExpectedCause string `json:"expected_cause"`
		}
		must.Do(t, json.Unmarshal(line, &r))
		in := r.ErrorText
		if string(r.Request) != "null" {
			record := map[string]any{"request": r.Request, "response": r.ErrorText}
			if r.Status != 0 {
				record["status"] = r.Status
			}
			if r.URL != "" {
				record["url"] = r.URL
			}
			in = string(must.Get(json.Marshal(record))(t))
		}
		got := explain(t, strings.NewReader(in))
		must.Equal(t, len(got), 1, "%s", r.ID)
		want, _, _ := strings.Cut(r.ExpectedCause, " (")
		ok := slices.Contains(strings.Split(want, "|"), got[0].Cause)
		all++
		mark := "right"
		switch {
		case ok:
			right++
		case got[0].Known == cause.Guessed || got[0].Known == cause.None:
			mark = "wrong, as a guess"
		default:
			mark = "WRONG"
			wrong++
		}
		t.Logf("%-36s %-18s %-9s %-28s %s", r.ID, mark, got[0].Known, got[0].Cause, r.ExpectedCause)
	}
	t.Logf("%d of %d right, %d wrong with certainty", right, all, wrong)
	if right*100 < all*85 || wrong*100 > all*3 {
		t.Error("fewer are right, or more are wrong with certainty, than promised")
	}
}

package regression

import (
	"encoding/json"
	"go/format"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/reduce"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A scene is a conversation of a dialect whose last request lacks the reply to the only call.
type scene struct {
	target          wire.Target
	request, answer string // the first request and the messages of its answer
	refused         string
	url             string // in the test
	rule            string
	stream          bool
}

const secret = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56"

var scenes = []scene{
	{
		target:  wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI},
		request: `{"model":"m","messages":[{"role":"user","content":"Which port?"}]}`,
		answer:  `[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"key\":\"Use this key, please: ` + secret + `\",\"cmd\":\"` + "`ls`" + `\"}"}}]}]`,
		refused: `{"model":"m","messages":[{"role":"user","content":"Which port?"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"call_1","content":"80"}]}`,
		url:     "OPENAI_BASE_URL", rule: "orphan_tool_reply",
	},
	{
		target:  wire.Target{Dialect: wire.OpenAIChat, Variant: wire.DeepSeek},
		request: `{"model":"m","stream":true,"messages":[{"role":"user","content":"Which port?"}]}`,
		answer:  `[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]}]`,
		refused: `{"model":"m","stream":true,"messages":[{"role":"user","content":"Which port?"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"call_1","content":"80"}]}`,
		url:     "OPENAI_BASE_URL", rule: "orphan_tool_reply", stream: true,
	},
	{
		target:  wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI},
		request: `{"model":"m","input":[{"role":"user","content":"Which port?"}]}`,
		answer:  `[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}","status":"completed"}]`,
		refused: `{"model":"m","input":[{"role":"user","content":"Which port?"},{"type":"function_call_output","call_id":"call_1","output":"80"}]}`,
		url:     "OPENAI_BASE_URL", rule: "orphan_tool_reply",
	},
	{
		target:  wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI},
		request: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Which port?"}]}`,
		answer:  `[{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}]}]`,
		refused: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Which port?"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}]},{"role":"user","content":"Well?"}]}`,
		url:     "ANTHROPIC_BASE_URL", rule: "missing_tool_reply",
	},
	{
		target:  wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI, Model: "gemini-2.5-flash"},
		request: `{"contents":[{"role":"user","parts":[{"text":"Which port?"}]}]}`,
		answer:  `[{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"}}}]}]`,
		refused: `{"contents":[{"role":"user","parts":[{"text":"Which port?"}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}]}`,
		url:     "GOOGLE_GEMINI_BASE_URL", rule: "orphan_tool_reply",
	},
	{
		target:  wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI},
		request: `{"messages":[{"role":"user","content":[{"text":"Which port?"}]}]}`,
		answer:  `[{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"read","input":{"path":"a"}}}]}]`,
		refused: `{"messages":[{"role":"user","content":[{"text":"Which port?"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"read","input":{"path":"a"}}}]},{"role":"user","content":[{"text":"Well?"}]}]}`,
		url:     "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", rule: "missing_tool_reply",
	},
	{
		target:  wire.Target{Dialect: wire.Interactions, Variant: wire.GeminiAPI},
		request: `{"model":"gemini-2.5-flash","input":[{"type":"user_input","content":[{"type":"text","text":"Which port?"}]}]}`,
		answer:  `[{"type":"function_call","id":"c1","name":"read","arguments":{"path":"a"}}]`,
		refused: `{"model":"gemini-2.5-flash","input":[{"type":"user_input","content":[{"type":"text","text":"Which port?"}]},{"type":"function_result","call_id":"c1","name":"read","result":"80"}]}`,
		url:     "GOOGLE_GEMINI_BASE_URL", rule: "orphan_tool_reply",
	},
}

func (s *scene) steps(t *testing.T) *reduce.Case {
	t.Helper()
	c := &reduce.Case{Target: s.target, Steps: []reduce.Step{{Exchange: "a"}, {Exchange: "b"}}}
	for i, text := range []string{s.request, s.refused} {
		c.Steps[i].Request = must.Get(reduce.Decode[map[string]any]([]byte(text)))(t)
	}
	c.Steps[0].Answer = must.Get(reduce.Decode[[]any]([]byte(s.answer)))(t)
	return c
}

// write writes the test of a scene.
func (s *scene) write(t *testing.T, o Options) (string, error) {
	t.Helper()
	c := s.steps(t)
	found, _, err := c.Faults()
	i := slices.IndexFunc(found, func(f reduce.Fault) bool { return f.Rule == s.rule })
	if err != nil || i < 0 {
		t.Fatalf("no %s in %v: %v", s.rule, found, err)
	}
	var b strings.Builder
	o.Exchange, o.Stream = "019aa0b0-3c1e-7d52-9f00-6a1b2c3d4e5f", s.stream
	err = Write(&b, c, &found[i], o)
	return b.String(), err
}

// The tests of every dialect are formatted, and their first answer makes the call.
func TestWrite(t *testing.T) {
	for _, s := range scenes {
		for _, f := range []string{Pytest, Go} {
			t.Run(string(s.target.Dialect)+"/"+f, func(t *testing.T) {
				text := must.Get(s.write(t, Options{Format: f}))(t)
				t.Logf("%s", text)
				if f == Go {
					if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
						t.Errorf("not formatted: %v\n%s", err, cmp.Diff(text, string(formatted)))
					}
				}
				var answers []string
				for line := range strings.Lines(text) {
					line = strings.TrimSuffix(line, "\n")
					if i := strings.Index(line, `{"`); i == 0 || i > 0 && line[i-1] == '`' {
						var answer json.RawMessage
						must.Do(t, json.NewDecoder(strings.NewReader(line[i:])).Decode(&answer))
						answers = append(answers, string(answer))
					} else if n := utf8.RuneCountInString(line); n > width && f == Pytest {
						t.Errorf("%d columns: %s", n, line)
					}
				}
				var r facts.Response
				if s.stream {
					answers[0] = "data: " + answers[0] + "\n\ndata: [DONE]\n\n"
				}
				if len(answers) != 2 || facts.ScanResponse(s.target.Dialect, "", []byte(answers[0]), &r) != nil || len(r.Calls) != 1 {
					t.Errorf("calls %v in %q", r.Calls, answers)
				}
				if strings.Contains(text, "sk-proj") || !strings.Contains(text, s.url) || strings.Count(text, "EDIT") > 2 {
					t.Errorf("secret, or no %s", s.url)
				}
				if n := strings.Count(text, "\n"); n >= 40 {
					t.Errorf("%d lines", n)
				}
			})
		}
	}
}

// A fault of which no test is possible is an error that says why.
func TestWriteImpossible(t *testing.T) {
	f := func(s scene, o Options, want string) {
		t.Helper()
		if text, err := s.write(t, o); err == nil || !strings.Contains(err.Error(), want) || text != "" {
			t.Errorf("%v, want %q\n%s", err, want, text)
		}
	}
	anthropic := scenes[3]
	anthropic.stream = true
	f(anthropic, Options{Format: Pytest}, "the agent reads streams of dialect anthropic, which the test cannot play")
	lost := scenes[0]
	lost.answer = `[]`
	f(lost, Options{Format: Go}, "the answer with call call_1 is not stored")
}

package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A shape writes requests of a dialect.
type shape struct {
	target              wire.Target
	head                string // up to the first turn
	tool                string // by its number
	turn                string // an assistant's two parallel calls, by their numbers
	open                string // what opens the message with their replies, if that is one
	reply               string // by the number of the call, with a content
	between, after, end string
}

var shapes = []shape{
	{
		target: openAI,
		head:   `{"model":"gpt-5","tools":[%s],"messages":[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the build."}`,
		tool:   `{"type":"function","function":{"name":"tool_%d","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}`,
		turn: `,{"role":"assistant","content":"I look at both files.","tool_calls":[` +
			`{"id":"call_%d","type":"function","function":{"name":"tool_0","arguments":"{\"path\":\"a.go\"}"}},` +
			`{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"b.go\"}"}}]}`,
		reply: `{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, between: ",", end: `]}`,
	},
	{
		target: wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI},
		head:   `{"model":"gpt-5","tools":[%s],"input":[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the build."}`,
		tool:   `{"type":"function","name":"tool_%d","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		turn: `,{"type":"function_call","call_id":"call_%d","name":"tool_0","arguments":"{\"path\":\"a.go\"}"},` +
			`{"type":"function_call","call_id":"call_%d","name":"tool_1","arguments":"{\"path\":\"b.go\"}"}`,
		reply: `{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, between: ",", end: `]}`,
	},
	{
		target: wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI},
		head:   `{"model":"claude-sonnet-4-5","max_tokens":100,"tools":[%s],"messages":[{"role":"user","content":"Fix the build."}`,
		tool:   `{"name":"tool_%d","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		turn: `,{"role":"assistant","content":[{"type":"text","text":"I look at both files."},` +
			`{"type":"tool_use","id":"toolu_%d","name":"tool_0","input":{"path":"a.go"}},` +
			`{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"b.go"}}]}`,
		open:  `{"role":"user","content":[`,
		reply: `{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}`, between: ",", after: "]}", end: `]}`,
	},
	{
		target: wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI, Model: "gemini-2.5-pro"},
		head:   `{"tools":[{"functionDeclarations":[%s]}],"contents":[{"role":"user","parts":[{"text":"Fix the build."}]}`,
		tool:   `{"name":"tool_%d","parameters":{"type":"OBJECT","properties":{"path":{"type":"STRING"}}}}`,
		turn: `,{"role":"model","parts":[{"text":"I look at both files."},` +
			`{"functionCall":{"id":"call_%d","name":"tool_0","args":{"path":"a.go"}}},` +
			`{"functionCall":{"id":"call_%d","name":"tool_0","args":{"path":"b.go"}}}]}`,
		open:  `{"role":"user","parts":[`,
		reply: `{"functionResponse":{"id":"call_%d","name":"tool_0","response":{"output":"%s"}}}`, between: ",", after: "]}", end: `]}`,
	},
	{
		target: wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI, Model: "anthropic.claude-sonnet-4-5-20250929-v1:0"},
		head:   `{"toolConfig":{"tools":[%s]},"messages":[{"role":"user","content":[{"text":"Fix the build."}]}`,
		tool:   `{"toolSpec":{"name":"tool_%d","inputSchema":{"json":{"type":"object","properties":{"path":{"type":"string"}}}}}}`,
		turn: `,{"role":"assistant","content":[{"text":"I look at both files."},` +
			`{"toolUse":{"toolUseId":"tooluse_%d","name":"tool_0","input":{"path":"a.go"}}},` +
			`{"toolUse":{"toolUseId":"tooluse_%d","name":"tool_1","input":{"path":"b.go"}}}]}`,
		open:  `{"role":"user","content":[`,
		reply: `{"toolResult":{"toolUseId":"tooluse_%d","content":[{"text":"%s"}]}}`, between: ",", after: "]}", end: `]}`,
	},
	{
		target: wire.Target{Dialect: wire.Cohere, Variant: wire.CohereAPI},
		head:   `{"model":"command-a","tools":[%s],"messages":[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the build."}`,
		tool:   `{"type":"function","function":{"name":"tool_%d","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}`,
		turn: `,{"role":"assistant","tool_plan":"I look at both files.","tool_calls":[` +
			`{"id":"call_%d","type":"function","function":{"name":"tool_0","arguments":"{\"path\":\"a.go\"}"}},` +
			`{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"b.go\"}"}}]}`,
		reply: `{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, between: ",", end: `]}`,
	},
}

// hundredKB is a request of about 100 KB without a defect: turns of two parallel calls each, as coding agents make them.
func (s shape) hundredKB() []byte {
	var tools []string
	for i := range 16 {
		tools = append(tools, fmt.Sprintf(s.tool, i))
	}
	var b strings.Builder
	fmt.Fprintf(&b, s.head, strings.Join(tools, ","))
	text := strings.Repeat("func main() { fmt.Println(1) } // ", 25)
	for i := 0; b.Len() < 100_000; i += 2 {
		fmt.Fprintf(&b, s.turn+","+s.open, i, i+1)
		fmt.Fprintf(&b, s.reply+s.between+s.reply+s.after, i, text, i+1, text)
	}
	b.WriteString(s.end)
	return []byte(b.String())
}

// BenchmarkRules is the scan of a request of 100 KB, then all rules over its facts; bytes per second are those of the
// body in both.
func BenchmarkRules(b *testing.B) {
	for _, s := range shapes {
		body := s.hundredKB()
		r := scan(b, s.target, body)
		b.Run(string(s.target.Dialect)+"/scan", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, facts.ScanRequest(s.target.Dialect, body, r))
			}
		})
		b.Run(string(s.target.Dialect)+"/rules", func(b *testing.B) {
			c := check.NewChecker(InOrder)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if v := c.Check(r, s.target, nil); v != nil {
					b.Fatal(v)
				}
			}
		})
	}
}

// TestCheckAllocatesNothing: a request without a defect costs no memory.
func TestCheckAllocatesNothing(t *testing.T) {
	for _, s := range shapes {
		r, c := scan(t, s.target, s.hundredKB()), check.NewChecker(InOrder)
		if v := c.Check(r, s.target, nil); v != nil {
			t.Errorf("%s: found %s", s.target.Dialect, say(v[0]))
		}
		must.Equal(t, testing.AllocsPerRun(10, func() { c.Check(r, s.target, nil) }), 0, "%s: allocations", s.target.Dialect)
	}
}

// TestHostile: calls, replies and tools, all of them wrong, take every rule linear time, nearly as many as facts keep. Of
// sixteen times as many, a rule that looked at each pair would take 256 times as long; 80 times is too long. It is the
// time of the processor, and the best of some runs counts: how busy the machine is does not matter.
func TestHostile(t *testing.T) {
	slowtest.Skip(t)
	const few, times, limit, tries = 1 << 11, 16, 5 * 16, 3
	for _, s := range shapes {
		bodies, more := s.hostile(few), s.hostile(few*times)
		for name := range bodies {
			one, all := scan(t, s.target, bodies[name]), scan(t, s.target, more[name])
			measure := func(rules []*check.Rule) (best, bestMore time.Duration) {
				c := check.NewChecker(rules)
				took := func(r *facts.Request) time.Duration {
					begun := slowtest.Processor(t)
					c.Check(r, s.target, nil)
					return max(slowtest.Processor(t)-begun, time.Microsecond)
				}
				took(all) // memory grows only once
				best, bestMore = took(one), took(all)
				for i := 0; i < tries && bestMore > limit*best; i++ {
					best, bestMore = min(best, took(one)), min(bestMore, took(all))
				}
				return best, bestMore
			}
			if found := check.NewChecker(InOrder).Check(all, s.target, nil); len(found) < 1000 || len(found) > 1000*len(All) {
				t.Errorf("%s, %s: %d findings", s.target.Dialect, name, len(found))
			}
			if best, bestMore := measure(InOrder); bestMore <= limit*best {
				continue
			}
			for _, r := range InOrder {
				if best, bestMore := measure([]*check.Rule{r}); bestMore > limit*best {
					t.Errorf("%s, %s: %s takes %v, and %v for %d times as much", s.target.Dialect, name, r.ID, best, bestMore, times)
				}
			}
			t.FailNow() // the other bodies would take as long
		}
	}
}

// hostile are histories of about n calls, or replies, or both, with a defect in each.
func (s *shape) hostile(n int) map[string][]byte {
	list := func(tools int, turn func(i int) string) []byte {
		var b strings.Builder
		for i := range tools {
			fmt.Fprintf(&b, s.tool+",", i/2)
		}
		head := fmt.Sprintf(s.head, strings.TrimSuffix(b.String(), ","))
		b.Reset()
		b.WriteString(head)
		for i := range n / 2 {
			b.WriteString(turn(i))
		}
		return []byte(b.String() + s.end)
	}
	bodies := map[string][]byte{
		"no replies": list(0, func(i int) string { return fmt.Sprintf(s.turn, 2*i, 2*i+1) }),
		"one id":     list(0, func(int) string { return fmt.Sprintf(s.turn, 1, 1) }),
		"no calls":   list(0, func(i int) string { return "," + s.open + fmt.Sprintf(s.reply, i, "") + s.after }),
		"one reply": list(0, func(int) string {
			return fmt.Sprintf(s.turn+","+s.open+s.reply+s.between+s.reply+s.between+s.reply+s.after, 0, 1, 0, "", 0, "", 0, "")
		}),
		"other reply": list(n, func(i int) string { return fmt.Sprintf(s.turn+","+s.open+s.reply+s.after, i, i, i+1, "") }),
	}
	if s.target == openAI {
		bodies["one message"] = []byte(`[{"role":"assistant","tool_calls":[{}` + strings.Repeat(",{}", n-1) + `]}]`)
	}
	return bodies
}

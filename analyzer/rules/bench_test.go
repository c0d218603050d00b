package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// A shape writes requests of a dialect.
type shape struct {
	target              facts.Target
	head                string // up to the first turn
	tool                string // by its number
	turn                string // an assistant's two parallel calls, by their numbers, up to their replies
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
			`{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"b.go\"}"}}]},`,
		reply: `{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, between: ",", end: `]}`,
	},
	{
		target: facts.Target{Dialect: facts.OpenAIResponses, Variant: facts.OpenAI},
		head:   `{"model":"gpt-5","tools":[%s],"input":[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the build."}`,
		tool:   `{"type":"function","name":"tool_%d","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		turn: `,{"type":"function_call","call_id":"call_%d","name":"tool_0","arguments":"{\"path\":\"a.go\"}"},` +
			`{"type":"function_call","call_id":"call_%d","name":"tool_1","arguments":"{\"path\":\"b.go\"}"},`,
		reply: `{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, between: ",", end: `]}`,
	},
	{
		target: facts.Target{Dialect: facts.Anthropic, Variant: facts.AnthropicAPI},
		head:   `{"model":"claude-sonnet-4-5","max_tokens":100,"tools":[%s],"messages":[{"role":"user","content":"Fix the build."}`,
		tool:   `{"name":"tool_%d","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		turn: `,{"role":"assistant","content":[{"type":"text","text":"I look at both files."},` +
			`{"type":"tool_use","id":"toolu_%d","name":"tool_0","input":{"path":"a.go"}},` +
			`{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"b.go"}}]},{"role":"user","content":[`,
		reply: `{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}`, between: ",", after: "]}", end: `]}`,
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
		fmt.Fprintf(&b, s.turn, i, i+1)
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
				if err := facts.ScanRequest(s.target.Dialect, body, r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(s.target.Dialect)+"/rules", func(b *testing.B) {
			c := analyzer.NewChecker(InOrder)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if v := c.Check(r, s.target); v != nil {
					b.Fatal(v)
				}
			}
		})
	}
}

// TestCheckAllocatesNothing: a request without a defect costs no memory.
func TestCheckAllocatesNothing(t *testing.T) {
	for _, s := range shapes {
		r, c := scan(t, s.target, s.hundredKB()), analyzer.NewChecker(InOrder)
		if v := c.Check(r, s.target); v != nil {
			t.Errorf("%s: found %s", s.target.Dialect, say(v[0]))
		}
		if n := testing.AllocsPerRun(10, func() { c.Check(r, s.target) }); n != 0 {
			t.Errorf("%s: %v allocations", s.target.Dialect, n)
		}
	}
}

// TestHostile: as many calls, replies and tools as facts keep, all of them wrong, take every rule linear time: seconds
// if not, milliseconds if so.
func TestHostile(t *testing.T) {
	n := 1 << 16
	for _, s := range shapes {
		if s.target != openAI {
			n = 1 << 13
		}
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
		lone := strings.TrimSuffix(strings.TrimSuffix(s.turn, ","), `,{"role":"user","content":[`)
		opened := strings.TrimPrefix(s.turn[len(lone):], ",")
		bodies := map[string][]byte{
			"no replies":  list(0, func(i int) string { return fmt.Sprintf(lone, 2*i, 2*i+1) }),
			"one id":      list(0, func(int) string { return fmt.Sprintf(lone, 1, 1) }),
			"no calls":    list(0, func(i int) string { return "," + opened + fmt.Sprintf(s.reply, i, "") + s.after }),
			"one reply":   list(0, func(i int) string { return fmt.Sprintf(s.turn+s.reply+s.between+s.reply+s.after, 0, 1, 0, "", 0, "") }),
			"other reply": list(n, func(i int) string { return fmt.Sprintf(s.turn+s.reply+s.after, i, i, i+1, "") }),
		}
		if s.target == openAI {
			bodies["one message"] = []byte(`[{"role":"assistant","tool_calls":[{}` + strings.Repeat(",{}", n-1) + `]}]`)
		}
		for name, body := range bodies {
			r, c := scan(t, s.target, body), analyzer.NewChecker(InOrder)
			found := c.Check(r, s.target)
			if len(found) < 1000 || len(found) > 1000*len(All) {
				t.Errorf("%s, %s: %d findings", s.target.Dialect, name, len(found))
			}
		}
	}
}

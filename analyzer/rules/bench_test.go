package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// hundredKB is a messages array of about 100 KB without a defect: turns of two parallel calls each, as coding agents
// make them.
func hundredKB() []byte {
	var b strings.Builder
	b.WriteString(`[{"role":"system","content":"You are a coding agent."},{"role":"user","content":"Fix the build."}`)
	text := strings.Repeat("func main() { fmt.Println(1) } // ", 25)
	for i := 0; b.Len() < 100_000; i += 2 {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"I look at both files.","tool_calls":[`+
			`{"id":"call_%d","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.go\"}"}},`+
			`{"id":"call_%d","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"b.go\"}"}}]}`, i, i+1)
		for j := range 2 {
			fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, i+j, text)
		}
	}
	b.WriteString("]")
	return []byte(b.String())
}

// BenchmarkRules is the scan of a request of 100 KB, then all rules over its facts; bytes per second are those of the
// body in both.
func BenchmarkRules(b *testing.B) {
	body := hundredKB()
	r := scan(b, openAI, body)
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if err := facts.ScanMessages(facts.OpenAIChat, body, r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rules", func(b *testing.B) {
		c := analyzer.NewChecker(InOrder)
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if v := c.Check(r, openAI); v != nil {
				b.Fatal(v)
			}
		}
	})
}

// TestCheckAllocatesNothing: a request without a defect costs no memory.
func TestCheckAllocatesNothing(t *testing.T) {
	r, c := scan(t, openAI, hundredKB()), analyzer.NewChecker(InOrder)
	if n := testing.AllocsPerRun(10, func() { c.Check(r, openAI) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

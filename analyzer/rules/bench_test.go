package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
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

// BenchmarkRules is all rules over the facts of a request of 100 KB; bytes per second are those of the body.
func BenchmarkRules(b *testing.B) {
	body := hundredKB()
	r := scan(b, body)
	c := analyzer.NewChecker(InOrder)
	if v := c.Check(r, openAI); v != nil {
		b.Fatal(v)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		c.Check(r, openAI)
	}
}

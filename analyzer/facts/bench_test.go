package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// agentSession makes a request body of about size bytes like that of an agent that reads and edits code: a system prompt,
// turns of an assistant's text and calls and the tools' replies, and the tools. Four fifths are tool replies with code of
// this package.
func agentSession(tb testing.TB, size int, seed uint64) []byte {
	tb.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		tb.Fatal("no sources", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	r := rand.New(rand.NewPCG(seed, 1))
	code := func(lines int) string {
		b := must.Get(os.ReadFile(names[r.IntN(len(names))]))(tb)
		all := strings.Split(string(b), "\n")
		from := r.IntN(len(all))
		var out strings.Builder
		for i := from; i < min(from+lines, len(all)); i++ {
			fmt.Fprintf(&out, "%5d\t%s\n", i+1, all[i])
		}
		return out.String()
	}
	quote := func(v any) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(r.IntN(4) == 0)
		must.Do(tb, e.Encode(v))
		return strings.TrimSpace(b.String())
	}
	tools := make([]string, 8)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":%s,"parameters":{"type":"object","properties":{`+
			`"path":{"type":"string","description":"Absolute path of the file."},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}}`,
			i, quote("Reads, writes or searches files of the workspace; says \"not found\" when there is none."))
	}
	tail := `],"model":"gpt-4o","tools":[` + strings.Join(tools, ",") + `],"tool_choice":"auto","stream":true}`
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"system","content":` + quote(strings.Repeat("You are a coding agent. Work in small steps, and say what you do. 你可以使用工具。\n", 12)) + `}`)
	b.WriteString(`,{"role":"user","content":"Make the \"failing\" test pass."}`)
	for call := 0; b.Len()+len(tail) < size; call++ {
		args := any(map[string]any{"path": "/src/facts/scanner.go", "limit": 40})
		if call%4 == 3 {
			args = map[string]any{"path": "/src/facts/args.go", "old": code(12), "new": code(14)}
		}
		fmt.Fprintf(&b, `,{"role":"assistant","content":%s,"tool_calls":[{"id":"call_%024d","type":"function","function":{"name":"tool_%d","arguments":%s}}]}`,
			quote("I read the file \"scanner.go\" first.\n\nThen I change the loop: it stops at `\\`."), call, call%8, quote(quote(args)))
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%024d","content":%s}`, call, quote(code(20+r.IntN(80))))
	}
	b.WriteString(tail)
	return []byte(b.String())
}

// A chatSession is a decoded agentSession.
type chatSession struct {
	Messages []struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Tools []struct{ Function json.RawMessage }
}

func decodedSession(tb testing.TB, size int, seed uint64) (chat chatSession) {
	tb.Helper()
	must.Do(tb, json.Unmarshal(agentSession(tb, size, seed), &chat))
	return chat
}

func BenchmarkScanRecordedRequests(b *testing.B) {
	var bodies [][]byte
	exchanges(b, "openai.chat", func(e *exchange) {
		if len(e.Request) > 4000 {
			bodies = append(bodies, bytes.Clone(e.Request))
		}
	})
	benchScan(b, wire.OpenAIChat, bodies)
}

// benchScan scans all bodies per operation.
func benchScan(b *testing.B, d wire.Dialect, bodies [][]byte) {
	var f Request
	var size int64
	for _, body := range bodies {
		size += int64(len(body))
		must.Do(b, ScanRequest(d, body, &f))
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, body := range bodies {
			must.Do(b, ScanRequest(d, body, &f))
		}
	}
}

func BenchmarkScanRecordedResponses(b *testing.B) {
	var unary, streams [][]byte
	exchanges(b, "openai.chat", func(e *exchange) {
		if body := bytes.Clone(e.body(b)); e.Stream {
			streams = append(streams, body)
		} else {
			unary = append(unary, body)
		}
	})
	scan := func(bodies [][]byte) func(*testing.B) {
		return func(b *testing.B) {
			var size int64
			for _, body := range bodies {
				size += int64(len(body))
			}
			b.SetBytes(size)
			b.ReportAllocs()
			var r Response
			for b.Loop() {
				for _, body := range bodies {
					must.Do(b, ScanResponse(wire.OpenAIChat, "", body, &r))
				}
			}
			b.ReportMetric(float64(len(bodies)), "bodies/op")
		}
	}
	b.Run("unary", scan(unary))
	b.Run("stream", scan(streams))
}

func BenchmarkCheckArgs(b *testing.B) {
	text, err := json.Marshal(map[string]any{"path": "/src/facts/args.go", "new": strings.Repeat("\tif s.i < len(s.b) && s.b[s.i] == '\"' {\n\t\treturn \"x\"\n\t}\n", 40)})
	must.Do(b, err)
	raw := appendQuoted(nil, text)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if checkArgs(raw) != ArgsObject {
			b.Fatal("not an object")
		}
	}
}

package analyzer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/event"
)

// conversationBodies are the requests of an agent that reads and edits code, as openai-python writes them: messages
// first, tools last. Each turn adds an assistant's message with a call, of which a fourth holds an edit, and a tool
// reply of code, about 4 KB together.
func conversationBodies(tb testing.TB, turns int, seed uint64) [][]byte {
	tb.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		tb.Fatal("no sources", err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	code := func(lines int) string {
		b, err := os.ReadFile(names[r.IntN(len(names))])
		if err != nil {
			tb.Fatal(err)
		}
		all := strings.Split(string(b), "\n")
		from := r.IntN(max(len(all)-lines, 1))
		var out strings.Builder
		for i := from; i < min(from+lines, len(all)); i++ {
			fmt.Fprintf(&out, "%5d\t%s\n", i+1, all[i])
		}
		return out.String()
	}
	quote := func(v any) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			tb.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	tools := make([]string, 12)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":%s,"parameters":{"type":"object","properties":{`+
			`"path":{"type":"string","description":"Absolute path of the file."},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}}`,
			i, quote(strings.Repeat("Reads, writes or searches files of the workspace; says \"not found\" when there is none. ", 4)))
	}
	tail := `],"model":"gpt-4o","tools":[` + strings.Join(tools, ",") + `],"tool_choice":"auto","stream":true}`
	history := `{"messages":[{"role":"system","content":` + quote(strings.Repeat("You are a coding agent. Work in small steps, and say what you do.\n", 60)) + `},` +
		`{"role":"user","content":"Make the \"failing\" test pass."}`
	bodies := make([][]byte, turns)
	for turn := range bodies {
		bodies[turn] = []byte(history + tail)
		args := any(map[string]any{"path": "/src/facts/scanner.go", "limit": 40})
		if turn%4 == 3 {
			args = map[string]any{"path": "/src/facts/args.go", "old": code(20), "new": code(24)}
		}
		history += fmt.Sprintf(`,{"role":"assistant","content":%s,"tool_calls":[{"id":"call_%024d","type":"function","function":{"name":"tool_%d","arguments":%s}}]}`+
			`,{"role":"tool","tool_call_id":"call_%024d","content":%s}`,
			quote("I read the file \"scanner.go\" first.\n\nThen I change the loop: it stops at `\\`."), turn, turn%8, quote(quote(args)),
			turn, quote(code(40+r.IntN(120))))
	}
	return bodies
}

// BenchmarkConversation reads all requests of conversations of 50 turns, which take turns as they do in a stream; a
// byte is one received. "scan" is the facts alone, "check" also pairing and rules, "process" all that the analyzer does
// with the requests. In "full" each is scanned whole, in "memo" what is known is not.
func BenchmarkConversation(b *testing.B) {
	const conversations, turns = 8, 50
	var bodies [turns][conversations][]byte
	var size, last int64
	for c := range conversations {
		for turn, body := range conversationBodies(b, turns, uint64(c)) {
			bodies[turn][c] = body
			size += int64(len(body))
			last = max(last, int64(len(body)))
		}
	}
	b.Logf("%d bytes a request, the longest %d", size/conversations/turns, last)
	run := func(name string, start func(*testing.B) (request func(round, c int, body []byte), end func())) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			request, end := start(b)
			for round := 0; b.Loop(); round++ {
				for turn := range bodies {
					for c, body := range bodies[turn] {
						request(round, c, body)
					}
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
			end()
		})
	}
	for _, memo := range []bool{false, true} {
		name := map[bool]string{false: "full", true: "memo"}[memo]
		for _, check := range []bool{false, true} {
			stage := map[bool]string{false: "scan", true: "check"}[check]
			run(stage+"/"+name, func(b *testing.B) (func(int, int, []byte), func()) {
				var f facts.Request
				var memos [conversations]facts.Memo
				checker := analyzer.NewChecker(rules.InOrder)
				target := facts.Target{Dialect: facts.OpenAIChat, Variant: facts.OpenAI, Model: "gpt-4o"}
				rounds := 0
				return func(round, c int, body []byte) {
						if round > rounds { // nothing is known of the next round's conversations
							rounds, memos = round, [conversations]facts.Memo{}
						}
						var err error
						if memo {
							_, err = facts.ScanRequestAfter(facts.OpenAIChat, body, &memos[c], &f)
						} else {
							err = facts.ScanRequest(facts.OpenAIChat, body, &f)
						}
						if err != nil {
							b.Fatal(err)
						}
						if check && len(checker.Check(&f, target)) > 0 {
							b.Fatal("a finding")
						}
					}, func() {
						if memo {
							b.ReportMetric(float64(memos[0].Bytes()), "B/conversation")
						}
					}
			})
		}
		run("process/"+name, func(b *testing.B) (func(int, int, []byte), func()) {
			a := newAnalyzer(b, analyzer.Default())
			if !memo {
				a.ForgetRequests()
			}
			out := new(analyzer.Output)
			var seq uint64
			return func(round, c int, body []byte) {
				seq++
				now := epoch.Add(time.Duration(round)*time.Hour + time.Duration(seq)*time.Millisecond)
				a.Process(&event.Event{
					Kind: event.Request, Exchange: fmt.Sprintf("e%d", seq), URL: "https://api.openai.com/v1/chat/completions", Body: body, BodyBytes: len(body), Part: 1, Parts: 1,
					Time: now, Instance: "i1", Seq: seq, Capture: event.CaptureFull, Origin: event.OriginHook,
					Labels: event.Labels{Service: "builder", Conversation: fmt.Sprintf("c%d.%d", round, c)},
				}, analyzer.Position{Seq: seq, Time: now}, true, out)
				out.Reset()
			}, func() {}
		})
	}
}

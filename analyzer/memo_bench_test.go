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
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// conversationBodies returns the requests of an agent that reads and edits code, as openai-python writes them: messages
// first, tools last. Each turn adds an assistant message with a call, every fourth with an edit, and a tool reply of code,
// about 4 KB together.
func conversationBodies(tb testing.TB, turns int, seed uint64) [][]byte {
	tb.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		tb.Fatal("no sources", err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	code := func(lines int) string {
		b := must.Get(os.ReadFile(names[r.IntN(len(names))]))(tb)
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
		must.Do(tb, e.Encode(v))
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

// BenchmarkConversation reads all requests of conversations of 50 turns; bytes are received ones. "scan" is the facts
// alone, "check" also pairing and rules, "process" the whole analyzer. In "full" each request is scanned whole, in "memo"
// known messages are skipped. The bodies of one conversation stay in the processor's caches, as bodies do that were just
// read from a connection; those of eight alternating conversations do not.
func BenchmarkConversation(b *testing.B) {
	for _, n := range []int{1, 8} {
		const turns = 50
		bodies := make([][][]byte, n) // by conversation, by turn
		var size int64
		for c := range bodies {
			bodies[c] = conversationBodies(b, turns, uint64(c))
			for _, body := range bodies[c] {
				size += int64(len(body))
			}
		}
		for _, memo := range []bool{false, true} {
			for _, stage := range []string{"scan", "check", "process"} {
				name := fmt.Sprintf("%d/%s/%s", n, stage, map[bool]string{false: "full", true: "memo"}[memo])
				b.Run(name, func(b *testing.B) {
					b.SetBytes(size)
					b.ReportAllocs()
					start := scanRound
					if stage == "process" {
						start = processRound
					}
					do, kept := start(b, n, memo, stage == "check")
					for b.Loop() {
						do(func(request func(c int, body []byte)) {
							for turn := range turns {
								for c := range bodies {
									request(c, bodies[c][turn])
								}
							}
						})
					}
					b.ReportMetric(float64(size)/float64(n*turns), "B/request")
					if memo {
						b.ReportMetric(float64(kept()/n), "B/conversation")
					}
				})
			}
		}
	}
}

// A round handles each request of n new conversations.
type round func(each func(request func(c int, body []byte)))

// scanRound reads facts, and with judge also runs the rules; kept returns the memory of the memos after a round.
func scanRound(b *testing.B, n int, memo, judge bool) (do round, kept func() int) {
	var f facts.Request
	memos := make([]facts.Memo, n)
	checker := check.NewChecker(rules.InOrder)
	target := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI, Model: "gpt-4o"}
	do = func(each func(func(int, []byte))) {
		clear(memos)
		each(func(c int, body []byte) {
			var err error
			if memo {
				_, err = facts.ScanRequestAfter(wire.OpenAIChat, body, &memos[c], &f)
			} else {
				err = facts.ScanRequest(wire.OpenAIChat, body, &f)
			}
			if err != nil || judge && len(checker.Check(&f, target, nil)) > 0 {
				b.Fatal("an error or a finding", err)
			}
		})
	}
	return do, func() (bytes int) {
		for i := range memos {
			bytes += memos[i].Bytes()
		}
		return bytes
	}
}

// processRound lets an analyzer process the requests. Those of the round before expired long ago.
func processRound(b *testing.B, _ int, memo, _ bool) (do round, kept func() int) {
	a := newAnalyzer(b, analyzer.Default())
	if !memo {
		a.ForgetRequests()
	}
	out := new(analyzer.Output)
	var seq uint64
	now, rounds := epoch, 0
	do = func(each func(func(int, []byte))) {
		rounds++
		now = now.Add(time.Hour)
		each(func(c int, body []byte) {
			seq++
			now = now.Add(time.Millisecond)
			a.Process(&event.Event{
				Kind: event.Request, Exchange: fmt.Sprintf("e%d", seq), URL: "https://api.openai.com/v1/chat/completions", Body: body,
				BodyBytes: len(body), Part: 1, Parts: 1, Time: now, Instance: "i1", Seq: seq, Capture: event.CaptureFull, Origin: event.OriginHook,
				Labels: event.Labels{Service: "builder", Conversation: fmt.Sprintf("c%d.%d", rounds, c)},
			}, analyzer.Position{Seq: seq, Time: now}, true, out)
			out.Reset()
		})
	}
	return do, func() int {
		_, bytes := a.Memos()
		return bytes
	}
}

package analyzer_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// loop returns an agent's tool loop: each turn adds a call and a reply of about size bytes.
func loop(s *stream, turns, size int) {
	line := "\t12  if err := f.Close(); err != nil {\n\t\treturn fmt.Errorf(\"close %s: %w\", name, err)\n\t}\n"
	result := strings.Repeat(line, size/len(line)+1)[:size]
	h := []msg{system("You are a careful programmer. " + result[:min(1000, size)]), user("fix the build")}
	for range turns {
		id := fmt.Sprintf("call_%024d", s.calls)
		said := assistant("I read the file next.", id+" read_file")
		s.ok(said, h...)
		h = append(h, said, tool(id, id+result)) // no reply twice: it is not a loop
	}
}

// readCache lets the answers report that each prompt was read from the cache up to where the one before ended, if it has several turns.
func readCache(steps []step) {
	before := map[string]int{}
	for i := 0; i < len(steps); i += 2 {
		ask, answer := steps[i].ev, steps[i+1].ev
		tokens, read := len(ask.Body)/4, before[ask.Labels.Conversation]
		before[ask.Labels.Conversation] = tokens / 64 * 64
		usage := fmt.Sprintf(`"prompt_tokens":%d,"prompt_cache_hit_tokens":%d,"prompt_cache_miss_tokens":%d`, tokens, read, tokens-read)
		answer.Body = bytes.Replace(answer.Body, []byte(`"prompt_tokens":100`), []byte(usage), 1)
		answer.BodyBytes = len(answer.Body)
	}
}

func bytesOf(steps []step) (n int64) {
	for _, st := range steps {
		n += int64(len(st.ev.Body))
	}
	return n
}

// BenchmarkProcess measures the events of many conversations, and recorded calls without an id of their conversation: processed
// (all), also with their contents redacted and emitted (stored), and only scanned as chat completions (scan). ns/event is wall time,
// cpu-ns/event processor time.
func BenchmarkProcess(b *testing.B) {
	for _, bm := range []struct {
		name                       string
		conversations, turns, size int
		inferred, cached           bool
	}{
		{"10KB", 50, 1, 8500, false, false},
		{"50turns", 4, 50, 4000, false, false},
		{"50turns_inferred", 4, 50, 4000, true, false},
		{"10KB_cached", 50, 1, 8500, false, true},
		{"50turns_cached", 4, 50, 4000, false, true},
		{name: "recorded"},
	} {
		s := newStream("")
		if bm.name == "recorded" {
			recordedExchanges(b, func(_ int, r *recordedExchange) { r.play(s) })
			for i := range s.steps { // 1000 events a second
				at := epoch.Add(time.Duration(i) * time.Millisecond)
				s.steps[i].ev.Time, s.steps[i].at.Time = at, at
			}
		}
		for i := range bm.conversations {
			if !bm.inferred {
				s.labels.Conversation = fmt.Sprintf("c%d", i)
			}
			if bm.turns == 1 {
				single(s, bm.size)
				continue
			}
			loop(s, bm.turns, bm.size)
		}
		if bm.cached {
			readCache(s.steps)
		}
		size := bytesOf(s.steps)
		run := func(name string, do func(b *testing.B) (round func())) {
			b.Run(name+"/"+bm.name, func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				round := do(b)
				start := slowtest.Processor(b)
				for b.Loop() {
					round()
				}
				events := float64(b.N * len(s.steps))
				b.ReportMetric(float64(b.Elapsed())/events, "ns/event")
				b.ReportMetric(float64(slowtest.Processor(b)-start)/events, "cpu-ns/event")
			})
		}
		process := func(a *analyzer.Analyzer) func() {
			out := new(analyzer.Output)
			round := 0
			return func() {
				a.ForgetContents() // each round stores its contents
				for i, st := range s.steps {
					if i%1000 == 0 { // as in the collector
						out.Reset()
					}
					st.at.Seq += uint64(round * len(s.steps))
					st.at.Time = st.at.Time.Add(time.Duration(round) * time.Hour) // each round finds empty memory
					a.Process(st.ev, st.at, true, out)
				}
				round++
			}
		}
		run("all", func(b *testing.B) func() { return process(newAnalyzer(b, analyzer.Default())) })
		run("stored", func(b *testing.B) func() {
			a := newAnalyzer(b, analyzer.Default())
			mask := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(b)
			a.KeepContents(func(string) bool { return true }, content.NewRedactor(mask).Append)
			return process(a)
		})
		run("sampled", func(b *testing.B) func() {
			a := newAnalyzer(b, analyzer.Default())
			mask := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(b)
			a.KeepContents(func(string) bool { return true }, content.NewRedactor(mask).Append)
			a.SampleContents(content.NewSampler([]content.Sampling{{Service: "*", Share: 0.1}}))
			return process(a)
		})
		run("scan", func(*testing.B) func() {
			var q facts.Request
			var r facts.Response
			return func() {
				for _, st := range s.steps {
					if st.ev.Kind == event.Request {
						_ = facts.ScanRequest(wire.OpenAIChat, st.ev.Body, &q)
					} else {
						_ = facts.ScanResponse(wire.OpenAIChat, st.ev.ContentType, st.ev.Body, &r)
					}
				}
			}
		})
	}
}

// single returns a request of about size bytes and a short answer.
func single(s *stream, size int) {
	text := strings.Repeat("func main() {\n\tfmt.Println(\"hello\")\n}\n", size/37+1)[:size]
	id := fmt.Sprintf("call_%024d", s.calls)
	s.ok(assistant("done"), system("You are a careful programmer."), user("fix it"), assistant("", id+" read_file"), tool(id, text))
}

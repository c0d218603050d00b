package analyzer_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkTallyVolume measures the tally of one second with 10^5 calls, all on one partition: bytes of JSON, series, and those
// that are counted as "other" because a tally is full or a label has too many values. A label set is a service, a version and a
// stage; one call in 50 fails.
func BenchmarkTallyVolume(b *testing.B) {
	for _, sets := range []int{60, 600, 1200, 6000, 60_000} {
		b.Run(fmt.Sprint(sets), func(b *testing.B) {
			const calls = 100_000
			var bytes, series, others float64
			for b.Loop() {
				t := tallyOf(b, calls, sets)
				text, err := json.Marshal(t)
				must.Do(b, err)
				bytes, series, others = float64(len(text)), float64(len(t.Counts)), 0
				for _, c := range t.Counts {
					if c.Labels["service"] == "other" {
						others += float64(c.N)
					}
				}
			}
			b.ReportMetric(bytes, "B/tally")
			b.ReportMetric(series, "series")
			b.ReportMetric(bytes/series, "B/series")
			b.ReportMetric(100*others/calls, "%other")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/calls, "µs/call")
		})
	}
}

// tallyOf returns the tally of a second with calls on a number of label sets.
func tallyOf(b *testing.B, calls, sets int) *analyzer.Tally {
	an := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	var out analyzer.Output
	at := time.Unix(1_790_000_000, 0)
	request := []byte(`{"model":"gpt-4.1","messages":[{"role":"user","content":"hello"}]}`)
	answer := []byte(`{"id":"1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`)
	refusal := []byte(`{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}`)
	for i := range calls {
		set := i % sets
		e := event.Event{
			Exchange: fmt.Sprintf("%032x", i), Time: at, Capture: event.CaptureFull, Origin: event.OriginHook, Instance: "a", Seq: uint64(2*i + 1), ContentType: "application/json",
			Labels: event.Labels{
				Service: fmt.Sprintf("checkout-%04d", set/6), ServiceVersion: fmt.Sprintf("2.%d.0", set%2), Environment: "production", Agent: "agent",
				Stage: []string{"planner", "executor", "writer"}[set/2%3], Conversation: fmt.Sprint("c", i),
			},
			Part: 1, Parts: 1,
		}
		q, s := e, e
		q.Kind, q.URL, q.Method, q.Body = event.Request, "https://api.openai.com/v1/chat/completions", "POST", request
		s.Kind, s.Status, s.Body, s.Seq = event.Response, 200, answer, e.Seq+1
		if i%50 == 0 {
			s.Status, s.Body = 429, refusal
		}
		an.Process(&q, analyzer.Position{Seq: q.Seq, Time: at}, true, &out)
		an.Process(&s, analyzer.Position{Seq: s.Seq, Time: at}, true, &out)
	}
	an.Advance(at.Add(5*time.Second), true, &out)
	for i := range out.Tallies {
		if len(out.Tallies[i].Counts) > 0 {
			return &out.Tallies[i]
		}
	}
	b.Fatal("no tally")
	return nil
}

// BenchmarkConversationMemory measures the memory of one conversation in progress, of a fleet as bench rate publishes it: what
// the heap grows by, and the analyzer's own estimate, by which it evicts.
func BenchmarkConversationMemory(b *testing.B) {
	const agents = 2000
	for _, shape := range []string{load.Mix, load.Runs, load.Short} {
		b.Run(shape, func(b *testing.B) {
			for b.Loop() {
				f := load.NewFleet(load.FleetConfig{Seed: 1, Shape: shape, Services: 20, Environment: "test"})
				f.Agents(agents)
				var events []*event.Event
				for range 3 * agents {
					_, more := f.Next()
					events = append(events, more...)
				}
				before := heap()
				reg := prometheus.NewRegistry()
				cfg := analyzer.Default()
				cfg.MaxStateBytes = 8 << 30
				an := analyzer.New(cfg, rules.InOrder, reg)
				var out analyzer.Output
				for i, e := range events {
					at := time.Unix(1_790_000_000, 0).Add(time.Duration(i) * time.Millisecond)
					e.Part, e.Parts, e.BodyBytes = 1, 1, len(e.Body)
					an.Process(e, analyzer.Position{Seq: uint64(i + 1), Time: at}, true, &out)
					out.Reset()
				}
				grown := float64(heap() - before)
				n := gauge(b, reg, "llmtap_analyzer_conversations")
				b.ReportMetric(grown/n, "B/conversation")
				b.ReportMetric((gauge(b, reg, "llmtap_analyzer_conversations_bytes")+gauge(b, reg, "llmtap_analyzer_memos_bytes"))/n, "estimated-B/conversation")
				b.ReportMetric(n, "conversations")
				runtime.KeepAlive(an)
				runtime.KeepAlive(events)
				runtime.KeepAlive(f)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func gauge(b *testing.B, reg *prometheus.Registry, name string) float64 {
	all := must.Get(reg.Gather())(b)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	b.Fatalf("no metric %s", name)
	return 0
}

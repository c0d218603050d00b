package analyzer_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// process is one process that sends events, some of which never arrive.
type process struct {
	service, id string
	seq         uint64
	dropped     uint64
}

// ping returns an event that only has a number of its process.
func (p *process) ping() *event.Event {
	p.seq++
	return &event.Event{
		Kind: event.Run, Labels: event.Labels{Service: p.service, Environment: "prod"}, Instance: p.id, Seq: p.seq, Dropped: p.dropped,
		Origin: event.OriginHook, Part: 1, Parts: 1,
	}
}

// sums returns the counts of a metric by service.
func sums(out *analyzer.Output, metric string) map[string]uint64 {
	m := map[string]uint64{}
	last := int64(0)
	for _, y := range out.Tallies {
		if y.Second <= last {
			continue // as a reader does
		}
		last = y.Second
		for _, c := range y.Counts {
			if c.Metric == metric {
				m[c.Labels["service"]] += c.N
			}
		}
	}
	return m
}

// lossy returns a random stream of processes, and what is lost and dropped by service: events are lost, overtaken, late by
// minutes, duplicated; exchanges are dropped, also before the first event arrives.
func lossy(seed uint64, n int) (steps []step, lost, dropped map[string]uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	lost, dropped = map[string]uint64{}, map[string]uint64{}
	now, stream := epoch, uint64(0)
	put := func(ev *event.Event) {
		stream++
		now = now.Add(time.Duration(rnd.IntN(2500)) * time.Millisecond)
		ev.Time = now
		steps = append(steps, step{ev, analyzer.Position{Seq: stream, Time: now}})
	}
	var all []*process
	for i := range 4 {
		p := &process{service: fmt.Sprintf("s%d", i%3), id: fmt.Sprintf("i%d", i)}
		all = append(all, p)
		if rnd.IntN(2) == 0 { // NATS was away from the start
			p.dropped = 1 + rnd.Uint64N(5)
			p.seq = p.dropped + rnd.Uint64N(p.dropped+1)
			lost[p.service], dropped[p.service] = lost[p.service]+p.seq, dropped[p.service]+p.dropped
		}
		put(p.ping())
	}
	for len(steps) < n {
		p := all[rnd.IntN(len(all))]
		switch rnd.IntN(9) {
		case 0: // lost on the way
			k := 1 + rnd.Uint64N(3)
			p.seq += k
			lost[p.service] += k
			put(p.ping())
		case 1: // dropped by the hook
			p.seq, p.dropped = p.seq+2, p.dropped+1
			lost[p.service], dropped[p.service] = lost[p.service]+2, dropped[p.service]+1
			put(p.ping())
		case 2: // overtaken
			old := []*event.Event{p.ping(), p.ping()}
			put(p.ping())
			for _, ev := range old {
				put(ev)
			}
		case 3: // cut off from NATS in the middle of what it sent; it sends that again first
			old := []*event.Event{p.ping(), p.ping()}
			newer := p.ping()
			put(newer)
			now = now.Add(time.Duration(rnd.IntN(120)) * time.Second)
			for _, ev := range append(old, newer) {
				again := *ev
				put(&again)
			}
		case 4: // the same once more
			ev := p.ping()
			put(ev)
			again := *ev
			put(&again)
		default:
			put(p.ping())
		}
	}
	now = now.Add(time.Minute)
	for _, p := range all {
		put(p.ping())
	}
	return append(steps, step{at: analyzer.Position{Time: now.Add(time.Hour)}}), lost, dropped
}

// With one partition, the counts of lost events and dropped exchanges are exact.
func TestLossesAreExact(t *testing.T) {
	for seed := range uint64(300) {
		steps, lost, dropped := lossy(seed, 200)
		out := run(t, analyzer.Default(), steps)
		must.Agree(t, cmp.Diff(lost, sums(out, analyzer.MetricLost)), "seed", seed, "lost")
		must.Agree(t, cmp.Diff(dropped, sums(out, analyzer.MetricDropped)), "seed", seed, "dropped")
	}
}

// A process that continues after another one died counts the same.
func TestLossesSurviveRestarts(t *testing.T) {
	for seed := range uint64(20) {
		steps, lost, dropped := lossy(seed, 60)
		for k := 1; k < len(steps); k++ {
			out := restarted(t, steps, k)
			if diff := cmp.Diff(lost, sums(out, analyzer.MetricLost)); diff != "" {
				t.Fatalf("seed %d, stopped after %d: lost %s", seed, k, diff)
			}
			if diff := cmp.Diff(dropped, sums(out, analyzer.MetricDropped)); diff != "" {
				t.Fatalf("seed %d, stopped after %d: dropped %s", seed, k, diff)
			}
		}
	}
}

// With several partitions none sees all events of a process: losses are not counted, and each partition counts the drops that
// it sees.
func TestLossesByPartition(t *testing.T) {
	for seed := range uint64(50) {
		steps, _, dropped := lossy(seed, 200)
		sum := map[string]uint64{}
		for p := range 2 {
			cfg := analyzer.Default()
			cfg.Partition, cfg.Partitions = p, 2
			var part []step
			for _, s := range steps {
				if s.ev == nil || int(s.at.Seq)%2 == p {
					part = append(part, s)
				}
			}
			out := run(t, cfg, part)
			if n := sums(out, analyzer.MetricLost); len(n) > 0 {
				t.Errorf("seed %d: lost %v", seed, n)
			}
			for service, n := range sums(out, analyzer.MetricDropped) {
				sum[service] += n
			}
		}
		for service, n := range sum {
			if n > 2*dropped[service] {
				t.Errorf("seed %d: %s dropped %d, counted as %d", seed, service, dropped[service], n)
			}
		}
	}
}

func TestSequenceIsNoEvidence(t *testing.T) {
	f := func(name string, change func(s *stream, p *process), want ...uint64) {
		t.Helper()
		s, p := newStream("c1"), &process{service: "builder", id: "p"}
		put := func(ev *event.Event) {
			s.seq++
			s.now = s.now.Add(time.Second)
			s.steps = append(s.steps, step{ev, analyzer.Position{Seq: s.seq, Time: s.now}})
		}
		put(p.ping())
		change(s, p)
		put(p.ping())
		s.advance(time.Minute)
		s.steps = append(s.steps, step{p.ping(), analyzer.Position{Seq: s.seq + 1, Time: s.now}})
		s.advance(time.Hour)
		out := run(t, analyzer.Default(), s.steps)
		must.Agree(t, cmp.Diff(want, []uint64{sums(out, analyzer.MetricLost)["builder"], sums(out, analyzer.MetricDropped)["builder"]}), name, "lost and dropped")
	}
	f("nothing", func(*stream, *process) {}, 0, 0)
	f("a loss", func(_ *stream, p *process) { p.seq += 3 }, 3, 0)
	f("garbage", func(_ *stream, p *process) { p.seq += 1 << 40 }, 0, 0)
	f("garbage drops", func(_ *stream, p *process) { p.dropped = 1 << 50 }, 0, 0)
	f("an import", func(s *stream, p *process) {
		p.seq += 5
		ev := p.ping()
		ev.Origin = event.OriginImport
		s.steps = append(s.steps, step{ev, analyzer.Position{Seq: s.seq, Time: s.now}})
		p.seq -= 6
	}, 0, 0)
}

// A process whose heartbeats stop has vanished, unless it reported its end. One that makes calls, or whose hook sends no
// heartbeats, has not. A restart changes nothing.
func TestVanishedProcesses(t *testing.T) {
	f := func(name string, beats, vanished uint64, script func(beat func(status string), wait func(minutes float64), p *process, put func(*event.Event))) {
		t.Helper()
		s, p := newStream("c1"), &process{service: "builder", id: "p"}
		put := func(ev *event.Event) {
			s.seq++
			s.steps = append(s.steps, step{ev, analyzer.Position{Seq: s.seq, Time: s.now}})
		}
		put(p.ping())
		other := &process{service: "other", id: "q"} // has other events later than every heartbeat
		script(func(status string) {
			ev := p.ping()
			ev.Kind, ev.HookStatus = event.Hook, status
			put(ev)
		}, func(minutes float64) {
			s.advance(time.Duration(minutes * float64(time.Minute)))
			put(other.ping())
		}, p, put)
		s.advance(time.Hour)
		for k := range s.steps {
			out := restarted(t, s.steps, k)
			got := []uint64{sums(out, analyzer.MetricHeartbeats)["builder"], sums(out, analyzer.MetricVanished)["builder"]}
			must.Agree(t, cmp.Diff([]uint64{beats, vanished}, got), name, "stopped after", k, "heartbeats and vanished")
		}
	}
	type (
		beat = func(string)
		wait = func(float64)
		put  = func(*event.Event)
	)
	f("no heartbeats", 0, 0, func(_ beat, wait wait, p *process, put put) { wait(1); put(p.ping()) })
	f("stops", 2, 1, func(beat beat, wait wait, _ *process, _ put) { beat("alive"); wait(1); beat("alive") })
	f("stops after a call", 1, 1, func(beat beat, wait wait, p *process, put put) { beat("alive"); wait(1); put(p.ping()); wait(1) })
	f("ends", 3, 0, func(beat beat, wait wait, _ *process, _ put) { beat("alive"); wait(1); beat("alive"); beat("ended") })
	f("two heartbeats are lost", 3, 0, func(beat beat, wait wait, _ *process, _ put) { beat("alive"); wait(3); beat("alive"); beat("ended") })
	f("makes calls instead", 2, 0, func(beat beat, wait wait, p *process, put put) {
		beat("alive")
		for range 5 {
			wait(2)
			put(p.ping())
		}
		beat("ended")
	})
	f("is back", 3, 1, func(beat beat, wait wait, _ *process, _ put) { beat("alive"); wait(10); beat("alive"); beat("ended") })
	f("arrives twice", 1, 1, func(beat beat, wait wait, p *process, put put) {
		beat("alive")
		p.seq--
		ev := p.ping()
		ev.Kind, ev.HookStatus = event.Hook, "alive"
		put(ev)
	})
}

// A missing answer that may have been sent is no failure.
func TestNoFindingFromAbsence(t *testing.T) {
	f := func(name string, change func(s *stream), want string) {
		t.Helper()
		s := newStream("c1")
		s.ok(assistant("hello"), hello...)
		id := s.exchange()
		s.request(id, hello...)
		change(s)
		s.advance(20 * time.Minute)
		e, _, _ := latest(run(t, analyzer.Default(), s.steps))
		must.Equal(t, fmt.Sprintf("%v %s", e[id].Failed, e[id].ErrorType), want, "%s", name)
	}
	f("nothing is missing", func(s *stream) { s.ok(assistant("hello"), hello...) }, "true no_response")
	f("an event is missing", func(s *stream) {
		s.lost++
		s.ok(assistant("hello"), hello...)
	}, "false lost")
	f("an event is missing, and long since lost", func(s *stream) {
		s.lost++
		s.ok(assistant("hello"), hello...)
		s.now = s.now.Add(time.Minute)
		s.ok(assistant("hello"), hello...)
	}, "false lost")
	f("the hook dropped an exchange", func(s *stream) {
		s.ok(assistant("hello"), hello...)
		s.steps[len(s.steps)-1].ev.Dropped = 1
	}, "false lost")
	f("a degraded request", func(s *stream) { s.steps[len(s.steps)-1].ev.Degraded = true }, "false lost")
	f("something was missing before", func(s *stream) {
		for _, st := range s.steps[2:] {
			st.ev.Seq += 5
		}
	}, "true no_response")
}

// Calls that hooks do not capture are counted as the processes report them, also if they make no others.
func TestUncaptured(t *testing.T) {
	var steps []step
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	report := func(service, instance string, seq, n uint64, by ...string) {
		now = now.Add(time.Second)
		steps = append(steps, step{ev: &event.Event{
			Kind: event.Hook, Labels: event.Labels{Service: service}, Instance: instance, Seq: seq, Uncaptured: n, UncapturedBy: strings.Join(by, " "), Origin: event.OriginHook, Part: 1, Parts: 1,
		}, at: analyzer.Position{Seq: uint64(len(steps) + 1), Time: now}})
	}
	report("dspy", "a", 1, 1)
	report("dspy", "a", 2, 105, "grpc=80", "websocket=20", "telepathy=3", "grpc", "http3=7000")
	report("dspy", "a", 2, 105, "grpc=80", "websocket=20") // again
	report("dspy", "a", 3, 106, "grpc=80", "websocket=21")
	report("dspy", "b", 1, 4, "http3=4")
	report("boto", "c", 7, 30) // the earlier ones were counted when they arrived
	report("boto", "c", 8, 33)
	out := run(t, analyzer.Default(), append(steps, step{at: analyzer.Position{Time: now.Add(time.Minute)}}))
	f := func(want map[string]uint64) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, countsBy(out, func(c *analyzer.Count) string {
			if c.Metric != analyzer.MetricUncaptured {
				return ""
			}
			return c.Labels["service"] + " " + c.Labels["transport"]
		})))
	}
	f(map[string]uint64{"dspy grpc": 80, "dspy websocket": 21, "dspy other": 5, "dspy http3": 4, "boto other": 3})
	if len(out.Exchanges)+len(out.Runs)+len(out.ToolCalls) > 0 {
		t.Errorf("%d exchanges, %d runs, %d tool calls", len(out.Exchanges), len(out.Runs), len(out.ToolCalls))
	}

	// A batch that was created is one call.
	s := newStream("")
	s.url = "https://api.openai.com/v1/batches"
	s.ok(msg{})
	s.fail(400, "no")
	s.url += "/batch_1/cancel"
	s.ok(msg{})
	s.advance(time.Minute)
	out = run(t, analyzer.Default(), s.steps)
	f(map[string]uint64{"builder batch": 1})
}

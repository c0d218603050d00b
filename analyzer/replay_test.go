package analyzer_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// fleet is a random stream: agents with and without conversation ids, some of them broken, whose calls overlap, are
// retried, time out, arrive in parts, twice or in the wrong order, or get lost.
type fleet struct {
	*stream
	rnd     *rand.Rand
	agents  []*agent
	pending []func()
	ids     int
}

type agent struct {
	conversation string
	run          string
	bug          int // 0 none, 1 drops calls, 2 truncates, 3 skips replies, 4 to 8 see goOn
	history      []msg
	busy         bool
}

func newFleet(seed uint64) *fleet {
	f := &fleet{stream: newStream(""), rnd: rand.New(rand.NewPCG(seed, 1))}
	for i := range 6 {
		f.agents = append(f.agents, newAgent(i, f.rnd))
	}
	return f
}

func newAgent(i int, rnd *rand.Rand) *agent {
	a := &agent{bug: rnd.IntN(9), history: []msg{system("You plan."), user(fmt.Sprintf("task %d", rnd.IntN(3)))}}
	if rnd.IntN(2) > 0 {
		a.run = fmt.Sprintf("run-%d", rnd.IntN(8))
	}
	if rnd.IntN(3) > 0 {
		a.conversation = fmt.Sprintf("c%d", i)
	}
	return a
}

// events makes about n events.
func (f *fleet) events(n int) []step {
	for len(f.steps) < n {
		switch r := f.rnd.IntN(20); {
		case r < 8 && len(f.pending) > 0:
			i := f.rnd.IntN(len(f.pending))
			end := f.pending[i]
			f.pending = append(f.pending[:i], f.pending[i+1:]...)
			end()
		case r == 8:
			f.now = f.now.Add(time.Duration(f.rnd.IntN(600)) * time.Second)
		case r == 9:
			f.advance(time.Duration(f.rnd.IntN(5000)) * time.Millisecond)
		case r == 10:
			f.now = f.now.Add(-time.Second) // several events in a second
		case r == 11:
			i := f.rnd.IntN(len(f.agents))
			f.agents[i] = newAgent(i, f.rnd)
		case r == 14: // a conversation goes on under another id, or without one
			if a := f.agents[f.rnd.IntN(len(f.agents))]; !a.busy {
				a.conversation = [...]string{"", "x", fmt.Sprintf("d%d", f.ids)}[f.rnd.IntN(3)]
			}
		case r == 12 && f.rnd.IntN(4) == 0:
			f.lost += 1 + f.rnd.Uint64N(3)
		case r == 13 && len(f.steps) > 0: // an event comes again, perhaps long after
			if old := f.steps[len(f.steps)-1-f.rnd.IntN(min(len(f.steps), 60))]; old.ev != nil {
				f.again(old.ev)
			}
		default:
			if a := f.agents[f.rnd.IntN(len(f.agents))]; !a.busy {
				f.turn(a)
			}
		}
	}
	return f.steps
}

// event returns an event of the agent itself, in the conversation of the call before.
func (f *fleet) event(k event.Kind) *event.Event { return f.add(&event.Event{Kind: k}) }

func (f *fleet) turn(a *agent) {
	id := f.exchange()
	f.labels.Conversation, f.labels.Run = a.conversation, a.run
	history := append([]msg(nil), a.history...)
	request := func() {
		q := f.request(id, history...)
		if f.rnd.IntN(10) == 0 {
			q.Retry = 1
		}
		if f.rnd.IntN(8) == 0 { // in two parts, which other events may separate
			whole := q.Body
			q.Body, q.Part, q.Parts, q.BodyBytes = whole[:len(whole)/2], 1, 2, len(whole)
			f.pending = append(f.pending, func() {
				f.labels.Conversation, f.labels.Run = a.conversation, a.run
				p := f.add(&event.Event{Kind: event.Request, Exchange: id, URL: f.url, Body: whole[len(whole)/2:], Part: 2, Parts: 2})
				p.BodyBytes = len(whole)
			})
		}
	}
	answered := func() {
		f.labels.Conversation, f.labels.Run = a.conversation, a.run
		a.busy = false
		if f.rnd.IntN(4) == 0 {
			f.response(id, 400, fault(orphanText))
			return
		}
		var calls []string
		for range f.rnd.IntN(3) {
			f.ids++
			id := fmt.Sprintf("call_%024d", f.ids)
			if a.bug > 6 {
				id = fmt.Sprintf("call_%d", len(calls))
			}
			calls = append(calls, id+" read_file")
		}
		said := assistant("", calls...)
		if len(calls) == 0 || f.rnd.IntN(2) == 0 {
			said = assistant(fmt.Sprintf("I have thought about it, and this is my answer %d.", f.rnd.IntN(5)), calls...)
		}
		f.response(id, 200, answer(said))
		a.goOn(said, calls, f.rnd)
	}
	switch f.rnd.IntN(12) {
	case 0: // never answered
		request()
	case 2: // the run says something
		f.event(event.Run).RunStatus = [...]string{"started", "ok", "error", "cancelled"}[f.rnd.IntN(4)]
	case 3: // so does a tool
		if f.ids > 0 {
			ev := f.event(event.Tool)
			ev.ToolCallID, ev.ToolStatus = fmt.Sprintf("call_%024d", 1+f.rnd.IntN(f.ids)), [...]string{"started", "ok", "error"}[f.rnd.IntN(3)]
		}
	case 1: // in the wrong order
		a.busy = true
		answered()
		request()
	default:
		a.busy = true
		request()
		f.pending = append(f.pending, answered)
	}
}

// goOn returns the next history of the agent after an answer, with its bug.
func (a *agent) goOn(said msg, calls []string, rnd *rand.Rand) {
	saved := said
	switch {
	case a.bug == 1 && rnd.IntN(2) == 0:
		saved = assistant("")
	case a.bug == 4 && len(calls) > 0: // saves the result of a structured output
		a.history = append(a.history, assistant("result"), user("and?"))
		return
	case a.bug == 5 && rnd.IntN(2) == 0: // discards the answer and asks again
		a.history = append(a.history, user("Try again."))
		return
	case a.bug == 6: // gives calls new ids
		for i := range calls {
			calls[i] = strings.Replace(calls[i], "call_0", "own_0", 1)
		}
		saved = assistant("", calls...)
	case a.bug == 7: // writes the first message anew
		a.history[1] = user(fmt.Sprintf("task, turn %d", len(a.history)))
	case a.bug == 8 && len(calls) > 0 && rnd.IntN(2) == 0: // hands over to another agent
		a.history = []msg{system("You execute."), a.history[1], user("The planner called read_file."), user("read_file returned 80.")}
		return
	}
	a.history = append(a.history, saved)
	for i, c := range calls {
		if a.bug == 3 && i > 0 {
			continue
		}
		id, _, _ := strings.Cut(c, " ")
		a.history = append(a.history, tool(id, "result"))
	}
	if len(calls) == 0 {
		a.history = append(a.history, user(fmt.Sprintf("and %d?", rnd.IntN(4))))
	}
	if a.bug == 2 && len(a.history) > 8 {
		a.history = append(a.history[:1:1], a.history[len(a.history)-5:]...)
	}
}

var replaySeeds = flag.Int("seeds", 16, "number of random streams of TestReplayIsExact")

// A process that dies after any event, and another one that continues from its checkpoint, emit what a single process emits.
func TestReplayIsExact(t *testing.T) {
	slowtest.Skip(t)
	const n = 150
	found := 0
	for seed := range *replaySeeds {
		steps := newFleet(uint64(seed)).events(n)
		whole := run(t, analyzer.Default(), steps)
		found += len(whole.Findings)
		for k := 1; k < len(steps); k++ {
			if got := restarted(t, steps, k); !sameOutput(t, whole, got) {
				t.Fatalf("seed %d: stopped after %d events", seed, k)
			}
		}
	}
	if found == 0 {
		t.Error("the streams have no finding; the test shows nothing")
	}
}

// A restart between an event and its repetition must not take the repetition for a new event: a conversation that was forgotten
// would still be there.
func TestReplayIgnoresRepeatedEvent(t *testing.T) {
	s := newStream("")
	call := func(conversation string, wait time.Duration, history ...msg) *event.Event {
		s.now = s.now.Add(wait)
		s.labels.Conversation = conversation
		id := s.exchange()
		q := s.request(id, history...)
		s.response(id, 200, answer(assistant("Done.")))
		return q
	}
	again := call("a", 0, user("first task"))
	call("b", time.Second, user("other task"))
	s.now = s.now.Add(20 * time.Minute)
	s.again(again)
	call("b", 5*time.Minute, user("other task"), assistant("Done."), user("and?"))
	call("a", 10*time.Minute, user("second task")) // the first task is forgotten
	call("b", 15*time.Minute, user("other task"))
	call("a", 10*time.Minute, user("second task"))
	call("a", time.Minute, user("second task"), tool("call_7", "a reply without its call"))
	whole := run(t, analyzer.Default(), s.steps)
	if len(whole.Findings) == 0 {
		t.Fatal("no finding that depends on the conversation")
	}
	for k := 1; k < len(s.steps); k++ {
		if !sameOutput(t, whole, restarted(t, s.steps, k)) {
			t.Fatalf("stopped after %d events", k)
		}
	}
}

// restarted runs steps in two processes: the first stops after k of them.
func restarted(t *testing.T, steps []step, k int) *analyzer.Output {
	t.Helper()
	return restartedAs(t, func() *analyzer.Analyzer { return newAnalyzer(t, analyzer.Default()) }, steps, k)
}

// restartedAs is restarted with analyzers that start returns.
func restartedAs(t *testing.T, start func() *analyzer.Analyzer, steps []step, k int) *analyzer.Output {
	t.Helper()
	out, first := new(analyzer.Output), start()
	stored := uint64(0)
	for _, s := range steps[:k] {
		do(first, s, true, out)
		stored = max(stored, s.at.Seq)
	}
	from, ledger := first.ReplayFrom(), savedLedger{}
	ledger.take(t, first)
	second := start()
	ledger.give(t, second, true)
	for _, s := range steps {
		switch {
		case s.ev == nil: // nobody advances time while there is something to read
		case from > 0 && s.at.Seq >= from && s.at.Seq <= stored:
			do(second, s, false, nil)
		}
	}
	for _, s := range steps[k:] {
		do(second, s, true, out)
	}
	return out
}

// sameOutput compares the newest versions of rows, and tallies as a reader takes them: each second once.
func sameOutput(t *testing.T, want, got *analyzer.Output) bool {
	t.Helper()
	we, wf, wc := latest(want)
	ge, gf, gc := latest(got)
	wt, gt := counted(want), counted(got)
	wr, gr := runsOf(want), runsOf(got)
	if reflect.DeepEqual(we, ge) && reflect.DeepEqual(wf, gf) && reflect.DeepEqual(wc, gc) && reflect.DeepEqual(wt, gt) && reflect.DeepEqual(wr, gr) {
		return true // much faster than to find no difference
	}
	for _, diff := range []string{cmp.Diff(we, ge), cmp.Diff(wf, gf), cmp.Diff(wc, gc), cmp.Diff(wt, gt), cmp.Diff(wr, gr)} {
		must.Agree(t, diff, "(-one process +two)")
	}
	return false
}

// runsOf keeps the newest version of each run.
func runsOf(out *analyzer.Output) map[string]analyzer.Run {
	runs := map[string]analyzer.Run{}
	for _, r := range out.Runs {
		if r.Seq >= runs[r.ID].Seq {
			runs[r.ID] = r
		}
	}
	return runs
}

// counted returns the tallies with counts, without those that a reader ignores: seconds that are not newer than the last.
func counted(out *analyzer.Output) []analyzer.Tally {
	var list []analyzer.Tally
	last := int64(0)
	for _, y := range out.Tallies {
		if y.Second <= last {
			continue
		}
		last = y.Second
		if len(y.Counts) > 0 {
			list = append(list, y)
		}
	}
	return list
}

// The same events always give the same output, independent of the order of maps.
func TestDeterministic(t *testing.T) {
	steps := newFleet(99).events(400)
	want := run(t, analyzer.Default(), steps)
	must.Agree(t, cmp.Diff(want, run(t, analyzer.Default(), steps), cmpopts.IgnoreUnexported(analyzer.Output{})))
}

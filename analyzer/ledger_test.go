package analyzer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// savedLedger is a stored ledger.
type savedLedger map[string]string

// take stores the changes of a.
func (k savedLedger) take(t testing.TB, a *analyzer.Analyzer) {
	t.Helper()
	changed, gone := a.TakeLedger()
	for i := range gone {
		delete(k, gone[i].String())
	}
	for i := range changed {
		value := must.Get(json.Marshal(&changed[i]))(t)
		k[changed[i].String()] = string(value)
	}
}

func (k savedLedger) give(t testing.TB, a *analyzer.Analyzer, own bool) {
	t.Helper()
	for key, value := range k {
		must.Do(t, a.Remember(key, []byte(value), own))
	}
}

// entry returns the entry of this kind and name.
func (k savedLedger) entry(t testing.TB, kind, name string) (e ledger.Entry) {
	t.Helper()
	n := 0
	for key, value := range k {
		if x, err := ledger.Decode(key, []byte(value)); err != nil {
			t.Fatal(err)
		} else if x.Kind == kind && x.Name == name {
			e = x
			n++
		}
	}
	must.Equal(t, n, 1, "entries of %s %s", kind, name)
	return e
}

// versioned returns a fleet's stream with deploys, and with a provider that changes its answers.
func versioned(seed uint64, n int) []step {
	f := newFleet(seed)
	steps := f.events(n)
	rnd := rand.New(rand.NewPCG(seed, 2))
	version := 0
	for i := range steps {
		if rnd.IntN(25) == 0 {
			version++
		}
		if ev := steps[i].ev; ev != nil {
			ev.Labels.ServiceVersion = fmt.Sprintf("1.%d", version/2)
		}
	}
	return steps
}

// A process dies after any event, and another one continues from its checkpoint with a ledger that is ahead of it by any
// number of events: rows and ledger are those of a single process.
func TestLedgerIsExact(t *testing.T) {
	slowtest.Skip(t)
	const seeds, n = 6, 120
	for seed := range seeds {
		steps := versioned(uint64(seed), n)
		exactAfterRestart(t, steps, uint64(seed))
	}
	y := newYears() // the signal too
	y.week(60, "builder", "coder")
	for range 12 {
		y.send("builder", "1.4.0", orphanText, orphan...)
		y.send("coder", "1.4.0", orphanText, orphan...)
	}
	y.send("coder", "1.4.0", "", orphan...)
	y.advance(20 * time.Minute)
	exactAfterRestart(t, y.steps, 99)
	y = newYears() // and what is tolerated
	tolerated(y, 8, "a", "b", "c")
	y.answerTo("d", 400, unpairedText)
	y.answerTo("e", 400, unpairedText)
	tolerated(y, 2, "f", "g")
	y.advance(20 * time.Minute)
	exactAfterRestart(t, y.steps, 100)
	y = newYears() // and a change of the model
	y.answeredBy(52, "a")
	y.answeredBy(15, "b")
	y.advance(20 * time.Minute)
	exactAfterRestart(t, y.steps, 101)
}

func exactAfterRestart(t *testing.T, steps []step, seed uint64) {
	t.Helper()
	whole, kept := new(analyzer.Output), savedLedger{}
	a := newAnalyzer(t, analyzer.Default())
	for _, s := range steps {
		do(a, s, true, whole)
	}
	kept.take(t, a)
	if len(kept) == 0 {
		t.Fatal("the ledger is empty; the test shows nothing")
	}
	rnd := rand.New(rand.NewPCG(seed, 3))
	for k := 1; k < len(steps); k++ {
		ahead := min(k+rnd.IntN(6), len(steps))
		out, got := brokenAt(t, steps, k, ahead)
		if !sameOutput(t, whole, out) {
			t.Fatalf("seed %d: checkpoint after %d events, ledger after %d", seed, k, ahead)
		}
		if diff := cmp.Diff(kept, got); diff != "" {
			t.Fatalf("seed %d: checkpoint after %d events, ledger after %d\n%.3000s", seed, k, ahead, diff)
		}
	}
}

// brokenAt runs steps in two processes: the first stores rows and keeps the ledger after ahead steps, and dies before its
// checkpoint moves beyond the first k.
func brokenAt(t *testing.T, steps []step, k, ahead int) (*analyzer.Output, savedLedger) {
	t.Helper()
	out, kept := new(analyzer.Output), savedLedger{}
	first := newAnalyzer(t, analyzer.Default())
	stored, from := uint64(0), uint64(0)
	for i, s := range steps[:ahead] {
		do(first, s, true, out)
		if i < k {
			stored = max(stored, s.at.Seq)
			from = first.ReplayFrom()
		}
	}
	kept.take(t, first)
	second := newAnalyzer(t, analyzer.Default())
	kept.give(t, second, true)
	for _, s := range steps {
		if s.ev != nil && from > 0 && s.at.Seq >= from && s.at.Seq <= stored {
			do(second, s, false, nil)
		}
	}
	for _, s := range steps[k:] {
		do(second, s, true, out)
	}
	kept.take(t, second)
	return out, kept
}

// The first version that shows a defect and the last clean one are known after a deploy, after a restart without its
// conversations, and without a root cause.
func TestFirstVersion(t *testing.T) {
	s := newStream("c1")
	s.labels.Stage = "planner"
	s.ok(assistant("hello"), hello...)
	s.labels.ServiceVersion = "1.5.0"
	call := func(conversation string) []msg {
		s.labels.Conversation = conversation
		s.ok(assistant("", "call_1 read_file"), hello...)
		return append(hello[:2:2], assistant(""), tool("call_1", "x"))
	}
	s.fail(400, orphanText, call("c2")...)
	s.labels.ServiceVersion = "1.5.1"
	s.fail(400, orphanText, call("c3")...)
	a, out, kept := newAnalyzer(t, analyzer.Default()), new(analyzer.Output), savedLedger{}
	for _, st := range s.steps {
		do(a, st, true, out)
	}
	for _, f := range out.Findings {
		if f.Rule == "orphan_tool_reply" && (f.FirstVersion != "1.5.0" || f.LastClean != "1.4.0") {
			t.Errorf("%s: first %q, last clean %q", f.Conversation, f.FirstVersion, f.LastClean)
		}
	}
	kept.take(t, a)
	for _, e := range []ledger.Entry{kept.entry(t, ledger.KindDefect, "orphan_tool_reply"), kept.entry(t, ledger.KindFailure, "orphan_tool_reply")} {
		if e.First.Version != "1.5.0" || e.LastClean != "1.4.0" || e.Count != 2 || e.RootCause != "tool_calls_dropped_on_save" || e.First.Seq == 0 || e.Last.Seq != s.seq {
			t.Errorf("%+v", e)
		}
	}

	// Weeks later, in a new process: the conversations are forgotten, and the root cause is unknown.
	b := newAnalyzer(t, analyzer.Default())
	kept.give(t, b, true)
	s.now = s.now.Add(14 * 24 * time.Hour)
	before := len(s.steps)
	s.labels.ServiceVersion, s.labels.Conversation = "1.9.0", "c9"
	s.fail(400, orphanText, user("q"), assistant("well"), tool("call_9", "x"))
	out.Reset()
	for _, st := range s.steps[before:] {
		do(b, st, true, out)
	}
	f := out.Findings[0]
	if f.FirstVersion != "1.9.0" || f.LastClean != "1.4.0" {
		t.Errorf("root cause %q: first %q, last clean %q; 1.5.1 had shown the rule", f.RootCause, f.FirstVersion, f.LastClean)
	}
}

// The ledger knows how many calls the last clean version made, also when a process counted some of them and another one the others.
func TestCleanCalls(t *testing.T) {
	f := func(calls int, want uint64) {
		t.Helper()
		s := newStream("c1")
		s.labels.Stage = "planner"
		talk := func() {
			s.labels.Conversation = fmt.Sprint("c", s.seq)
			s.ok(assistant("hello"), hello...)
		}
		for range calls {
			talk()
		}
		s.labels.ServiceVersion = "1.5.0"
		s.fail(400, orphanText, user("q"), assistant("well"), tool("call_9", "x"))
		s.labels.ServiceVersion = "1.4.0"
		talk()                                                     // after the failure
		for _, k := range []int{calls, 2*calls + 1, 2*calls + 2} { // steps before the restart
			first, second, kept := newAnalyzer(t, analyzer.Default()), newAnalyzer(t, analyzer.Default()), savedLedger{}
			for _, st := range s.steps[:k] {
				do(first, st, true, new(analyzer.Output))
			}
			kept.take(t, first)
			kept.give(t, second, true)
			for i, st := range s.steps {
				do(second, st, i >= k, new(analyzer.Output))
			}
			kept.take(t, second)
			for _, e := range []ledger.Entry{kept.entry(t, ledger.KindDefect, "orphan_tool_reply"), kept.entry(t, ledger.KindFailure, "orphan_tool_reply")} {
				if e.LastClean != "1.4.0" || e.CleanCalls != want {
					t.Errorf("restart after %d of %d steps: %s: %d calls of %q, want %d", k, len(s.steps), e.Kind, e.CleanCalls, e.LastClean, want)
				}
			}
		}
	}
	f(5, 5)
	f(1200, 1000)
}

// A version that showed a rule without a root cause is not clean of a root cause that is found later.
func TestNotCleanBeforeRootCause(t *testing.T) {
	s := newStream("c1")
	s.ok(assistant("hello"), hello...)
	s.labels.ServiceVersion, s.labels.Conversation = "1.5.0", "c2"
	s.fail(400, orphanText, user("q"), assistant("well"), tool("call_9", "x"))
	s.labels.ServiceVersion, s.labels.Conversation = "1.6.0", "c3"
	s.ok(assistant("", "call_1 read_file"), hello...)
	s.fail(400, orphanText, append(hello[:2:2], assistant(""), tool("call_1", "x"))...)
	out := run(t, analyzer.Default(), s.steps)
	var got []string
	for _, f := range out.Findings {
		got = append(got, fmt.Sprintf("%s: %s, last clean %s", f.RootCause, f.FirstVersion, f.LastClean))
	}
	want := []string{"unknown_no_history: 1.5.0, last clean 1.4.0", "tool_calls_dropped_on_save: 1.6.0, last clean 1.4.0"}
	must.Agree(t, cmp.Diff(want, got))
}

// provider_tightened is proven by the ledger of an earlier process, of this partitioning of the stream or another.
func TestTightenedAfterRestart(t *testing.T) {
	y := newYears()
	y.week(168, "builder")
	a, kept := newAnalyzer(t, analyzer.Default()), savedLedger{}
	for _, s := range y.steps {
		do(a, s, true, new(analyzer.Output))
	}
	kept.take(t, a)
	before := len(y.steps)
	for range 3 {
		y.send("builder", "1.4.0", orphanText, orphan...)
	}
	for _, own := range []bool{true, false} {
		b, out := newAnalyzer(t, analyzer.Default()), new(analyzer.Output)
		kept.give(t, b, own)
		for _, s := range y.steps[before:] {
			do(b, s, true, out)
		}
		rows, _ := tightened(out)
		if len(rows) != 1 || !strings.HasPrefix(rows[0], "medium ") || !strings.Contains(rows[0], "accepted 168 times from 2026-11-21 08:00:02 UTC to") {
			t.Errorf("own %v: %q", own, rows)
		}
	}
}

// Merge may happen in any order and any number of times; the entries of another partitioning are added once, however often
// they are read.
func TestLedgerMerge(t *testing.T) {
	steps := versioned(5, 200)
	var states []savedLedger
	for _, n := range []int{60, 120, 200} {
		a, k := newAnalyzer(t, analyzer.Default()), savedLedger{}
		for _, s := range steps[:n] {
			do(a, s, true, new(analyzer.Output))
		}
		k.take(t, a)
		states = append(states, k)
	}
	join := func(own, foreign ledger.Entry) ledger.Entry { // of a partition, and of another partitioning
		l := ledger.New(1)
		l.Add(&own, true)
		l.Add(&foreign, false)
		return l.Get(own.Key).Entry
	}
	decode := func(i int, key string) ledger.Entry {
		return must.Get(ledger.Decode(key, []byte(states[i][key])))(t)
	}
	n := 0
	for key := range states[0] {
		n++
		a, b, c := decode(0, key), decode(1, key), decode(2, key)
		merge := func(list ...ledger.Entry) ledger.Entry {
			m := list[0]
			for i := range list[1:] {
				m = m.Merge(&list[1+i])
			}
			return m
		}
		for _, m := range []ledger.Entry{merge(a, b, c), merge(c, b, a), merge(b, c, a, a, b, c), merge(a, merge(b, c)), merge(c, a)} {
			must.Agree(t, cmp.Diff(c, m), key)
		}
		once := join(c, a)
		must.Agree(t, cmp.Diff(once, join(once, a)), key)
	}
	if n == 0 {
		t.Error("no entries; the test shows nothing")
	}
}

// However many keys a stream has, the ledger stays within its bound and forgets the longest unseen entries, in the store too.
func TestLedgerIsBounded(t *testing.T) {
	const bound = 50
	a, kept, s := newAnalyzer(t, analyzer.Default()), savedLedger{}, newStream("c1")
	analyzer.BoundLedger(a, bound)
	for i := range 600 {
		s.labels.Service, s.labels.ServiceVersion = fmt.Sprintf("s%d", i%120), fmt.Sprintf("1.%d", i)
		s.labels.Conversation = fmt.Sprintf("c%d", i)
		if i%10 == 0 { // seen again and again
			s.labels.Service = "often"
		}
		s.fail(400, orphanText, user("q"), tool("call_1", "x"))
	}
	for i, st := range s.steps {
		do(a, st, true, new(analyzer.Output))
		if i%7 == 0 {
			kept.take(t, a)
			if n := analyzer.LedgerLen(a); n > bound || len(kept) != n {
				t.Fatalf("%d entries, %d kept", n, len(kept))
			}
		}
	}
	kept.take(t, a)
	often := 0
	for key, value := range kept {
		e := must.Get(ledger.Decode(key, []byte(value)))(t)
		if e.Service == "often" && e.Kind == ledger.KindDefect {
			often++
		}
	}
	if often == 0 {
		t.Error("an entry that is seen often is forgotten")
	}

	// A store with more entries than the bound.
	b := newAnalyzer(t, analyzer.Default())
	analyzer.BoundLedger(b, 10)
	kept.give(t, b, true)
	kept.take(t, b)
	if n := analyzer.LedgerLen(b); n != 10 || len(kept) != 10 {
		t.Errorf("%d entries, %d kept", n, len(kept))
	}
}

// A stage with a new version for every call costs no more than others.
func TestVersionsAreBounded(t *testing.T) {
	a, s := newAnalyzer(t, analyzer.Default()), newStream("c1")
	for i := range 500 {
		s.labels.ServiceVersion = fmt.Sprintf("build-%d", i)
		s.ok(assistant("hello"), hello...)
	}
	for _, st := range s.steps {
		do(a, st, true, new(analyzer.Output))
	}
	if n := analyzer.LedgerLen(a); n > 64+1 { // versions, and the model that answers
		t.Errorf("%d entries", n)
	}
}

// An unreadable entry is refused and changes nothing.
func TestRememberRefuses(t *testing.T) {
	s := newStream("c1")
	s.ok(assistant("hello"), hello...)
	a, kept := newAnalyzer(t, analyzer.Default()), savedLedger{}
	for _, st := range s.steps {
		do(a, st, true, new(analyzer.Output))
	}
	kept.take(t, a)
	for key, value := range kept {
		for _, bad := range []string{"", "{", "null", "[]", strings.Replace(value, `"kind":"`, `"kind":"no `, 1), strings.Replace(value, "builder", "other", 1), value[:len(value)-1] + `,"verdict":{}}`, value[:len(value)-1] + `,"last":{"seq":1}}`} {
			b := newAnalyzer(t, analyzer.Default())
			must.Fail(t, b.Remember(key, []byte(bad), true), "", bad, "is accepted")
			must.Equal(t, analyzer.LedgerLen(b), 0, "entries that %s leaves", bad)
		}
	}
}

// Imports and degraded exchanges are not in the ledger.
func TestNotInLedger(t *testing.T) {
	for _, change := range []func(*event.Event){
		func(ev *event.Event) { ev.Origin = event.OriginImport },
		func(ev *event.Event) { ev.Degraded = true },
	} {
		s := newStream("c1")
		s.fail(400, orphanText, user("q"), tool("call_1", "x"))
		a := newAnalyzer(t, analyzer.Default())
		for _, st := range s.steps {
			change(st.ev)
			do(a, st, true, new(analyzer.Output))
		}
		if changed, _ := a.TakeLedger(); len(changed) > 0 {
			t.Errorf("%+v", changed)
		}
	}
}

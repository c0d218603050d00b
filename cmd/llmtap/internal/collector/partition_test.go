package collector

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
)

var (
	rounds    = flag.Int("rounds", 1, "how many random streams TestProcesses plays for each number of processes")
	roundSeed = flag.Uint64("round-seed", 1, "seed of the first of them")
)

// A random stream is read by processes that are killed at random points, with a store that refuses rows at times. The rows
// by id, and the tallies by partition and second, are those of one process that nobody disturbs.
//
//	go test ./cmd/llmtap/internal/collector -run TestProcesses -rounds 20 -v
func TestProcesses(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for round := range *rounds {
				seed := *roundSeed + uint64(round)
				f := newFlock(t, seed*10+uint64(n))
				f.partitions = 4
				for range n {
					f.start()
				}
				kills := f.disturb(func(i int) { f.kill(i); f.start() })
				got := f.finish()
				f.reset()
				f.start()
				want := f.finish()
				same(t, seed, want, got)
				t.Logf("seed %d: %d kills, %d exchanges, %d findings, %d tool calls, %d seconds tallied, %d entries in the ledger",
					seed, kills, len(want.exchanges), len(want.findings), len(want.calls), len(want.tallies), len(want.ledger))
				if len(want.findings) == 0 || len(want.tallies) == 0 || len(want.ledger) == 0 {
					t.Error("the stream holds no finding, or the ledger no entry; the test shows nothing")
				}
				f.stop()
			}
		})
	}
}

// The number of partitions changes again and again under load, after a kill or a stop: every call is in one row and counted
// once, in the second in which one process counts it.
func TestNumberOfPartitionsChanges(t *testing.T) {
	t.Parallel()
	f := newFlock(t, *roundSeed)
	f.partitions = 1
	f.start()
	for i, n := range []int{4, 2, 3} {
		f.play(300, func(int) {})
		if i == 1 {
			f.halt(0)
		} else {
			f.kill(0)
		}
		f.partitions = n
		f.start()
		for begun := time.Now(); !strings.HasPrefix(f.processes[0].role.ready(), "reading"); {
			if f.play(30, func(int) {}); time.Since(begun) > 30*time.Second {
				t.Fatalf("the stream is not cut into %d: %s", n, f.processes[0].role.ready())
			}
		}
	}
	f.play(100, func(int) {})
	got := f.finish()
	f.reset()
	f.partitions = 1
	f.start()
	want := f.finish()
	same(t, *roundSeed, want.merged(), got.merged())
	f.stop()
}

// While the store is away tallies go on, and rows wait in the stream; afterwards each is there.
func TestTalliesGoOnWithoutStore(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 7)
	f.partitions = 2
	f.store.refuse(true)
	f.start()
	f.play(400, func(int) {}) // about 200 calls
	for begun := time.Now(); f.tallied() < 150; time.Sleep(200 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("without the store %d calls are counted", f.tallied())
		}
	}
	if rows := f.store.snapshot(); len(rows.exchanges) > 0 {
		t.Errorf("%d rows are stored, and the test shows nothing", len(rows.exchanges))
	}
	f.kill(0) // and who takes over does not count again
	f.start()
	time.Sleep(3 * f.lease)
	f.store.refuse(false)
	got := f.finish()
	f.reset()
	f.start()
	same(t, 7, f.finish(), got)
	f.stop()
}

// Processes share the partitions; one that starts gets its part at once, those of one that stops are taken over.
func TestShare(t *testing.T) {
	t.Parallel()
	f := newFlock(t, 1)
	f.partitions, f.lease = 4, time.Minute
	until := func(want ...int) {
		t.Helper()
		var held []int
		for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
			held = nil
			for _, p := range f.processes {
				p.role.mu.Lock()
				held = append(held, len(p.role.assigned))
				p.role.mu.Unlock()
			}
			if cmp.Equal(want, held) {
				return
			}
		}
		t.Fatalf("the processes hold %v partitions, want %v", held, want)
	}
	f.start()
	until(4)
	f.start()
	until(2, 2)
	f.start()
	f.start()
	until(1, 1, 1, 1)
	for range 2 {
		f.halt(0)
	}
	until(2, 2)
	for i, want := range []string{"reading partition", "reading partition"} {
		if text := f.processes[i].role.ready(); !strings.HasPrefix(text, want) {
			t.Errorf("process %d: %q", i, text)
		}
	}
	f.halt(0)
	until(4)
	f.partitions = 2
	f.start()
	for f.processes[1].role.ready() != "standing by: other processes read the stream in 4 partitions, not 2; stop them first" {
		time.Sleep(10 * time.Millisecond)
	}
	f.halt(0)
	until(2)
	f.stop()
}

// ready is the text of status, and its error's.
func (a *analyzeRole) ready() string {
	text, err := a.status()
	if err != nil {
		return err.Error()
	}
	return text
}

// same compares two runs over the same stream.
func same(t *testing.T, seed uint64, want, got flockRows) {
	t.Helper()
	for _, diff := range []string{
		cmp.Diff(want.exchanges, got.exchanges), cmp.Diff(want.findings, got.findings), cmp.Diff(want.calls, got.calls),
		cmp.Diff(want.tallies, got.tallies), cmp.Diff(want.ledger, got.ledger),
	} {
		if diff != "" {
			t.Errorf("seed %d (-undisturbed +disturbed)\n%.4000s", seed, diff)
		}
	}
}

// disturb plays the stream, and meanwhile calls kill with the number of a process at random times, and keeps the store away
// at others. It returns how often it killed.
func (f *flock) disturb(kill func(i int)) (kills int) {
	f.play(1200, func(event int) {
		switch r := f.rnd.IntN(400); {
		case r == 0 || event == 500 || event == 900:
			kill(f.rnd.IntN(len(f.processes)))
			kills++
		case r == 1 || event == 700:
			f.store.refuse(true)
			time.AfterFunc(time.Duration(f.rnd.IntN(900))*time.Millisecond, func() { f.store.refuse(false) })
		}
	})
	f.store.refuse(false)
	return kills
}

// play publishes about n events of conversations that interleave, some of them broken.
func (f *flock) play(n int, meanwhile func(event int)) {
	pub := f.conn.NewPublisher(64)
	for i := len(f.talks); i < 24; i++ {
		f.talks = append(f.talks, &talk{id: fmt.Sprintf("conversation %d", i), bug: f.rnd.IntN(4), rnd: f.rnd})
	}
	for i := range n {
		if err := pub.Publish(f.t.Context(), f.talks[f.rnd.IntN(len(f.talks))].next()); err != nil {
			f.t.Fatal(err)
		}
		if i%10 == 0 {
			time.Sleep(time.Duration(f.rnd.IntN(50)) * time.Millisecond)
		}
		meanwhile(i)
	}
	if err := pub.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// merged is the rows, with tallies as if there were one partition, and without what each partition knows by itself.
func (r flockRows) merged() flockRows {
	findings := maps.Clone(r.findings)
	for id, f := range findings {
		f.FirstVersion, f.LastClean = "", ""
		findings[id] = f
	}
	r.findings, r.ledger = findings, nil
	tallies := map[second]map[string]uint64{}
	for at, counts := range r.tallies {
		at.partition = 0
		if tallies[at] == nil {
			tallies[at] = map[string]uint64{}
		}
		for series, n := range counts {
			if !strings.HasPrefix(series, analyzer.MetricNew) { // each partition counts what is new to its own ledger
				tallies[at][series] += n
			}
		}
	}
	r.tallies = tallies
	return r
}

var errKilled = errors.New("the process is dead")

// A flockStore keeps rows as a table of the newest version of each id, for processes that come and go.
type flockStore struct {
	mu       sync.Mutex // guards the rest
	rows     flockRows
	refusing bool
}

func (s *flockStore) refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = on
}

// snapshot is what is stored.
func (s *flockStore) snapshot() flockRows {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// flockRows are rows by id, and tallies by partition and second.
type flockRows struct {
	exchanges map[string]analyzer.Exchange
	findings  map[string]analyzer.Finding
	calls     map[string]analyzer.ToolCall
	tallies   map[second]map[string]uint64
	ledger    map[string]string
}

type second struct {
	partition int
	at        int64
}

func newFlockRows() flockRows {
	return flockRows{map[string]analyzer.Exchange{}, map[string]analyzer.Finding{}, map[string]analyzer.ToolCall{}, map[second]map[string]uint64{}, map[string]string{}}
}

// newer puts row under id unless a newer version is there.
func newer[T any](m map[string]T, id string, row T, version func(*T) uint64) {
	if old, ok := m[id]; !ok || version(&old) <= version(&row) {
		m[id] = row
	}
}

package collector

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	rounds    = flag.Int("rounds", 1, "number of random streams of TestProcesses for each number of processes")
	roundSeed = flag.Uint64("round-seed", 1, "seed of the first one")
)

// Processes read a random stream. They are killed at random points, and the store sometimes refuses rows. The rows by id, and
// the tallies by partition and second, equal those of one undisturbed process.
//
//	go test ./cmd/llmtap/internal/collector -run TestProcesses -rounds 20 -v
func TestProcesses(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for round := range *rounds {
				seed := *roundSeed + uint64(round)
				c := newCluster(t, seed*10+uint64(n))
				c.partitions = 4
				for range n {
					c.start()
				}
				kills := c.disturb(func(i int) { c.kill(i); c.start() })
				got := c.finish()
				c.reset()
				c.start()
				want := c.finish()
				compare(t, seed, want, got)
				t.Logf("seed %d: %d kills, %d exchanges, %d findings, %d tool calls, %d seconds tallied, %d ledger entries",
					seed, kills, len(want.exchanges), len(want.findings), len(want.calls), len(want.tallies), len(want.ledger))
				if len(want.findings) == 0 || len(want.tallies) == 0 || len(want.ledger) == 0 {
					t.Error("no findings, tallies or ledger entries: the test is void")
				}
				c.stopAll()
			}
		})
	}
}

// The number of partitions changes several times under load, after a kill or a stop: every call is one row and is tallied
// once, in the same second as by one process.
func TestRepartition(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	c := newCluster(t, *roundSeed)
	// What a model accepts again and again is tolerated, and a limit of parallel calls shows in several conversations of a
	// service. Each partition sees only a part of both.
	c.apart, c.merged = true, true
	c.partitions = 1
	c.start()
	for i, n := range []int{4, 2, 3} {
		c.publish(300, func(int) {})
		if i == 1 {
			c.stop(0)
		} else {
			c.kill(0)
		}
		c.partitions = n
		c.start()
		for start := time.Now(); !strings.HasPrefix(c.processes[0].role.statusText(), "reading"); {
			if c.publish(30, func(int) {}); time.Since(start) > 30*time.Second {
				t.Fatalf("the stream is not repartitioned to %d: %s", n, c.processes[0].role.statusText())
			}
		}
	}
	c.publish(100, func(int) {})
	got := c.finish()
	c.reset()
	c.partitions = 1
	c.start()
	want := c.finish()
	compare(t, *roundSeed, want.merged(), got.merged())
	c.stopAll()
}

// The findings, and the causes that are counted as new, are the same for any number of partitions. Conversations that share a
// service have the same causes, but root causes that show only in several conversations may differ: see TestRepartition.
func TestPartitions(t *testing.T) {
	for _, apart := range []bool{true, false} {
		t.Run(fmt.Sprint("apart ", apart), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, *roundSeed)
			c.apart, c.merged = apart, true
			c.publish(400, func(int) {})
			var want results
			for _, n := range []int{1, 2, 4} {
				c.reset()
				c.partitions = n
				c.start()
				got := c.finish().merged()
				c.stopAll()
				switch {
				case n == 1:
					want = got
				case apart:
					compare(t, *roundSeed, want, got)
				default:
					must.Agree(t, cmp.Diff(want.newCauses(), got.newCauses()), n, "partitions (-one +several)")
				}
			}
			if len(want.newCauses()) < 3 || len(want.findings) == 0 {
				t.Error("no new causes or no findings: the test is void")
			}
		})
	}
}

// newCauses returns the counts of new causes by service, cause and root cause. r must be merged.
func (r results) newCauses() map[string]uint64 {
	all := map[string]uint64{}
	for series, n := range r.tallies[second{}] {
		all[version.ReplaceAllString(series, "")] += n
	}
	return all
}

var version = regexp.MustCompile(`service_version:\S+ `)

// A cause is counted as new by one partition, whether the others knew it before, or count it later.
func TestNewCauses(t *testing.T) {
	t.Parallel()
	c := newNewCauses()
	c.add(cause{"shop", "planner", "orphan_tool_reply", ""}, origin{partition: 2, second: 100})
	f := func(want bool, partition int, at int64, service, cause string) {
		t.Helper()
		tally := &analyzer.Tally{Partition: partition, Second: at, Counts: []analyzer.Count{
			{Metric: analyzer.MetricFailed, N: 1},
			{Metric: analyzer.MetricNew, Labels: map[string]string{"service": service, "stage": "planner", "cause": cause}, N: 1},
		}}
		c.filter(tally)
		must.Equal(t, len(tally.Counts) == 2, want, "partition %d, second %d, %s, %s: counted", partition, at, service, cause)
	}
	// The ledger of partition 2 has it.
	f(false, 1, 200, "shop", "orphan_tool_reply")
	f(true, 2, 100, "shop", "orphan_tool_reply")
	f(false, 1, 90, "shop", "orphan_tool_reply") // late
	// A single partition is never filtered.
	f(true, 0, 10, "bank", "context_length_exceeded")
	f(true, 0, 500, "bank", "context_length_exceeded")
	// Two partitions see it at about the same time.
	f(true, 1, 301, "bank", "orphan_tool_reply")
	f(false, 0, 300, "bank", "orphan_tool_reply")
	// Folded services may be different ones.
	f(true, 0, 300, "other", "orphan_tool_reply")
	f(true, 1, 301, "other", "orphan_tool_reply")
}

// While the store is down, tallies continue and rows stay in the stream; afterwards every row is stored.
func TestTalliesWithoutStore(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	c := newCluster(t, 7)
	c.partitions = 2
	c.store.refuse(true)
	c.start()
	c.publish(400, func(int) {}) // about 200 calls
	must.Wait(t, "150 calls are tallied without the store", func() bool { return c.tallied() >= 150 }, func() any { return c.tallied() })
	if rows := c.store.snapshot(); len(rows.exchanges) > 0 {
		t.Errorf("%d rows stored while the store is down", len(rows.exchanges))
	}
	c.kill(0) // its successor must not tally again
	c.start()
	time.Sleep(3 * c.lease)
	c.store.refuse(false)
	c.wait(0)
	c.publish(20, func(int) {}) // the tallies of the next seconds come from the process that stores rows, not from the one that could not
	got := c.finish()
	c.reset()
	c.start()
	compare(t, 7, c.finish(), got)
	c.stopAll()
}

// After an outage of the store, new calls are tallied while the backlog is stored, also if the store fails again meanwhile. Every
// row is stored, and every call is tallied once.
func TestTalliesDuringCatchUp(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	c := newCluster(t, 8)
	c.partitions = 1
	c.store.refuse(true)
	c.start()
	tallied := func(n uint64) {
		t.Helper()
		must.Wait(t, fmt.Sprint(n, " calls are tallied"), func() bool { return c.tallied() >= n }, func() any { return fmt.Sprintf("%d tallied, %d stored", c.tallied(), c.store.stored()) })
	}
	c.publish(5000, func(int) {}) // about 2,500 calls
	tallied(2300)
	c.store.delay.Store(int64(200 * time.Millisecond))
	c.store.refuse(false)
	c.publish(400, func(event int) {
		if event == 200 {
			c.store.refuse(true)
			time.AfterFunc(time.Second, func() { c.store.refuse(false) })
		}
	})
	tallied(2500)
	if n := c.store.stored(); n > 1500 {
		t.Errorf("%d calls are stored: the tallies may have waited for the backlog", n)
	}
	c.store.delay.Store(0)
	c.wait(0)
	c.publish(20, func(int) {})
	got := c.finish()
	c.reset()
	c.start()
	compare(t, 8, c.finish(), got)
	c.stopAll()
}

// Processes share the partitions: a starting process gets its share immediately, and others acquire those of a stopped one.
func TestRebalance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.partitions, c.lease = 4, time.Minute
	until := func(want ...int) {
		t.Helper()
		var assigned []int
		must.Wait(t, fmt.Sprint("assigned partitions ", want), func() bool {
			assigned = nil
			for _, p := range c.processes {
				p.role.mu.Lock()
				assigned = append(assigned, len(p.role.assigned))
				p.role.mu.Unlock()
			}
			return cmp.Equal(want, assigned)
		}, func() any { return assigned })
	}
	c.start()
	until(4)
	c.start()
	until(2, 2)
	c.start()
	c.start()
	until(1, 1, 1, 1)
	for range 2 {
		c.stop(0)
	}
	until(2, 2)
	for i, want := range []string{"reading partition", "reading partition"} {
		if text := c.processes[i].role.statusText(); !strings.HasPrefix(text, want) {
			t.Errorf("process %d: %q", i, text)
		}
	}
	c.stop(0)
	until(4)
	c.partitions = 2
	c.start()
	must.Wait(t, "another number of partitions stands by", func() bool {
		return c.processes[1].role.statusText() == "standing by: other processes read the stream in 4 partitions, not 2; stop them first"
	})
	c.stop(0)
	until(2)
	c.stopAll()
}

// statusText returns the status, or its error.
func (a *analyzeRole) statusText() string {
	text, err := a.status()
	if err != nil {
		return err.Error()
	}
	return text
}

// compare compares the results of two runs over the same stream.
func compare(t *testing.T, seed uint64, want, got results) {
	t.Helper()
	for _, diff := range []string{
		cmp.Diff(want.exchanges, got.exchanges), cmp.Diff(want.findings, got.findings), cmp.Diff(want.calls, got.calls),
		cmp.Diff(want.tallies, got.tallies), cmp.Diff(want.ledger, got.ledger),
	} {
		must.Agree(t, diff, "seed", seed, "(-undisturbed +disturbed)")
	}
}

// disturb publishes events, and at random times calls kill with the index of a process or takes the store down. It returns the
// number of kills.
func (c *cluster) disturb(kill func(i int)) (kills int) {
	c.publish(1200, func(event int) {
		switch r := c.rnd.IntN(400); {
		case r == 0 || event == 500 || event == 900:
			kill(c.rnd.IntN(len(c.processes)))
			kills++
		case r == 1 || event == 700:
			c.store.refuse(true)
			time.AfterFunc(time.Duration(c.rnd.IntN(900))*time.Millisecond, func() { c.store.refuse(false) })
		}
	})
	c.store.refuse(false)
	return kills
}

// publish publishes n events of interleaved conversations, some of them defective. It calls each after each event.
func (c *cluster) publish(n int, each func(event int)) {
	pub := c.conn.NewPublisher(64)
	for i := len(c.conversations); i < 24; i++ {
		k := &conversation{id: fmt.Sprintf("conversation %d", i), service: "shop", model: "gpt-4.1", defect: c.rnd.IntN(4), rnd: c.rnd}
		if c.apart {
			k.service, k.model = fmt.Sprint("shop-", i), fmt.Sprint("gpt-4.1-", i)
		}
		c.conversations = append(c.conversations, k)
	}
	for i := range n {
		must.Do(c.t, pub.Publish(c.t.Context(), c.conversations[c.rnd.IntN(len(c.conversations))].next()))
		if i%10 == 0 {
			time.Sleep(time.Duration(c.rnd.IntN(50)) * time.Millisecond)
		}
		each(i)
	}
	must.Do(c.t, pub.Flush(c.t.Context()))
}

// merged returns r with tallies as of one partition, and without the data that is separate for each partition. Of several
// partitions that have a new cause at about the same time, any may be the one that counts it, so its second is left out: the
// counts of new causes have the key second{}.
func (r results) merged() results {
	findings := maps.Clone(r.findings)
	for id, fi := range findings {
		fi.FirstVersion, fi.LastClean = "", ""
		findings[id] = fi
	}
	r.findings, r.ledger = findings, nil
	tallies := map[second]map[string]uint64{}
	add := func(at second, series string, n uint64) {
		if tallies[at] == nil {
			tallies[at] = map[string]uint64{}
		}
		tallies[at][series] += n
	}
	for at, counts := range r.tallies {
		for series, n := range counts {
			if strings.HasPrefix(series, analyzer.MetricNew) {
				add(second{}, series, n)
			} else {
				add(second{at: at.at}, series, n)
			}
		}
	}
	r.tallies = tallies
	return r
}

var errKilled = errors.New("the process is dead")

// A rowStore is the store of all processes. It stores the newest version of each row.
type rowStore struct {
	delay atomic.Int64 // of a write, a time.Duration

	mu       sync.Mutex // guards the rest
	results  results
	refusing bool
}

func (s *rowStore) refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = on
}

// stored returns the number of stored calls.
func (s *rowStore) stored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.results.exchanges)
}

// snapshot returns the stored rows.
func (s *rowStore) snapshot() results {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results
}

// results are the rows by id, the tallies by partition and second, and the ledger by key.
type results struct {
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

func newResults() results {
	return results{map[string]analyzer.Exchange{}, map[string]analyzer.Finding{}, map[string]analyzer.ToolCall{}, map[second]map[string]uint64{}, map[string]string{}}
}

// newer sets m[id] to row unless it is a newer version.
func newer[T any](m map[string]T, id string, row T, version func(*T) uint64) {
	if old, ok := m[id]; !ok || version(&old) <= version(&row) {
		m[id] = row
	}
}

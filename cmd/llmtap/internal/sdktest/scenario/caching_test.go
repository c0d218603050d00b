package scenario

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A verdict is what the analyzer says about a call.
type verdict struct {
	*madeCall
	row analyzer.Exchange
}

// A half is an event with its time.
type half struct {
	at time.Time
	ev *event.Event
}

// verdicts runs an analyzer over the events of a run, in the time of the run, and returns what it says about each call.
func (r *cachingRun) verdicts() []verdict {
	r.t.Helper()
	r.collect()
	var requests []*event.Event
	answers := map[string]*event.Event{}
	for _, ev := range r.events {
		switch {
		case ev.Labels.Run != r.id:
		case ev.Kind == event.Request:
			requests = append(requests, ev)
		case ev.Kind == event.Response:
			answers[ev.Exchange] = ev
		}
	}
	r.events = nil
	slices.SortStableFunc(requests, func(a, b *event.Event) int { return a.Time.Compare(b.Time) })
	if len(requests) != len(r.calls) {
		r.t.Fatalf("%s: %d requests of %d calls", r.id, len(requests), len(r.calls))
	}
	var list []half
	of := map[string]*madeCall{}
	for i, ev := range requests {
		c := r.calls[i]
		of[ev.Exchange] = c
		list = append(list, half{c.start, ev}, half{c.end, answers[ev.Exchange]})
	}
	slices.SortStableFunc(list, func(a, b half) int { return a.at.Compare(b.at) })
	cfg := analyzer.Default()
	cfg.Epoch = 1
	an, out := analyzer.New(cfg, rules.InOrder, prometheus.NewRegistry()), new(analyzer.Output)
	seq := map[string]uint64{}
	for i, h := range list {
		h.ev.Time = h.at
		seq[h.ev.Instance]++
		h.ev.Seq = seq[h.ev.Instance] // as if the process made no other calls
		an.Process(h.ev, analyzer.Position{Seq: uint64(i + 1), Time: h.at}, true, out)
	}
	an.AdvanceTo(r.now.Add(time.Hour), true, out)
	rows := map[string]analyzer.Exchange{}
	for _, e := range out.Exchanges {
		rows[e.ID] = e
	}
	var said []verdict
	for _, ev := range requests {
		said = append(said, verdict{of[ev.Exchange], rows[ev.Exchange]})
	}
	return said
}

// A cachingResult is what was said about a run.
type cachingResult struct {
	kind    *cachingKind
	dialect *cachingDialect
	right   bool
	nothing bool   // too little was lost for a reason to be stated
	why     string // not right

	calls                    int
	told                     map[string]int // reasons stated of calls that are not known to be broken
	obvious, found, breaking int            // calls that the obvious rule is wrong about, right about, and those that break the cache
}

// judge compares what is said about the calls of a run with what is true.
func (k *cachingKind) judge(d *cachingDialect, said []verdict, m mode) (x cachingResult) {
	x = cachingResult{kind: k, dialect: d, right: true, calls: len(said), told: map[string]int{}}
	wrong := func(i int, format string, args ...any) {
		v := said[i]
		x.right = false
		x.why += fmt.Sprintf("\n\tcall %d (%s, %s): %s; said %+v of %d tokens, %d read, %d written", i, v.agent.conversation, v.start.Format("15:04:05"),
			fmt.Sprintf(format, args...), v.row.Cache, v.row.InputTokens, v.row.CachedTokens, v.row.CacheWritten)
		for j := range i {
			if said[j].agent.conversation == v.agent.conversation && j > i-3 {
				x.why += fmt.Sprintf("; before %d, %d read", said[j].row.InputTokens, said[j].row.CachedTokens)
			}
		}
	}
	before := map[string]int64{} // tokens read and written by the last call of a conversation
	prompt := map[string]int64{} // tokens of the last prompt of a conversation
	maybe, stated, checked := false, false, k.healthy
	for i, v := range said {
		c := &v.row.Cache
		in := prompt[v.agent.conversation]
		few := in > 0 && in-v.row.CachedTokens < d.unit || v.kept >= 0 && v.kept < max(d.unit, in/20) // not read; of what is kept, only bytes are known
		if !v.failed {
			prompt[v.agent.conversation] = v.row.InputTokens
			fewer := v.row.CachedTokens < before[v.agent.conversation]
			before[v.agent.conversation] = v.row.CachedTokens + v.row.CacheWritten
			switch breaks := v.want != nil && promptcache.Avoidable(v.want.reason); {
			case fewer && !breaks:
				x.obvious++
			case fewer:
				x.found++
			}
		}
		switch want := v.want; {
		case want == nil:
			if promptcache.Avoidable(c.Reason) {
				wrong(i, "nothing is broken")
			} else if c.Reason != "" {
				x.told[c.Reason]++
			}
		case v.may || few:
			maybe = maybe || v.may
			if c.Reason == want.reason {
				stated = true
			} else if c.Reason != "" {
				wrong(i, "want %s, if anything", want.reason)
			}
		default:
			checked = true
			x.breaking++
			switch {
			case c.Reason != want.reason:
				wrong(i, "want %s", want.reason)
			case len(want.elements) > 0 && !slices.Contains(want.elements, c.Element):
				wrong(i, "want %s", want.elements)
			case want.detail != "" && m.capture == event.CaptureFull && c.Detail != want.detail:
				wrong(i, "want %s", want.detail)
			case c.Missed <= 0:
				wrong(i, "no tokens are missed")
			}
		}
	}
	if maybe && !stated && x.right && k.mustState() {
		x.right, x.why = false, "\n\tthe reason is never stated"
	}
	x.nothing = !checked && !maybe
	return x
}

// mustState reports whether the reason of calls that may have it must be stated at least once.
func (k *cachingKind) mustState() bool {
	return k.name != "too short" && k.name != "evicted at random"
}

// playCaching plays n runs of each kind in each dialect.
func playCaching(t *testing.T, m mode, kinds []*cachingKind, n int, processes *nodes) (list []cachingResult) {
	t.Helper()
	natsURL, stream := startNATS(t)
	w := newWorld(t, natsURL, stream, "caching-"+m.name, m, nil)
	w.nodes = processes
	w.hooks = []hook{w.open(), w.open()}
	for _, k := range kinds {
		for _, d := range cachingDialects {
			if !k.plays(d) || !strings.Contains(k.name, *cachingOnly) || k.noID && !m.ids {
				continue
			}
			for i := range n {
				id := fmt.Sprintf("%s/%s/%d", k.name, d.name, i)
				h := fnv.New64a()
				_, _ = h.Write([]byte(id))
				r := newCachingRun(w, d, fmt.Sprintf("%016x", h.Sum64()), rand.New(rand.NewPCG(h.Sum64(), 1)))
				k.play(r)
				x := k.judge(d, r.verdicts(), m)
				if x.why != "" {
					x.why = id + x.why
				}
				list = append(list, x)
			}
		}
	}
	for _, h := range w.hooks {
		if err := h.Close(); err != nil {
			t.Errorf("hook: %v", err)
		}
	}
	return list
}

// tabulate prints the right runs of each kind in each dialect, and returns the cells below a floor in percent.
func tabulate(t *testing.T, kinds []*cachingKind, list []cachingResult, floor int) (below []string) {
	t.Helper()
	rows := [][]string{{"kind"}}
	for _, d := range cachingDialects {
		rows[0] = append(rows[0], d.name)
	}
	rows[0] = append(rows[0], "calls", "broken", "told otherwise", "obvious rule: found", "false")
	for _, k := range kinds {
		if !strings.Contains(k.name, *cachingOnly) {
			continue
		}
		cells := []string{k.name}
		var sum cachingResult
		told := map[string]int{}
		for _, d := range cachingDialects {
			right, runs := 0, 0
			for _, x := range list {
				if x.kind != k || x.dialect != d {
					continue
				}
				sum.calls += x.calls
				for reason, n := range x.told {
					told[reason] += n
				}
				sum.obvious += x.obvious
				sum.found += x.found
				sum.breaking += x.breaking
				if x.nothing && x.right {
					continue
				}
				if runs++; x.right {
					right++
				}
			}
			cell := fmt.Sprintf("%d/%d", right, runs)
			if runs == 0 {
				cell = "-"
			}
			cells = append(cells, cell)
			if right*100 < floor*runs {
				below = append(below, k.name+"/"+d.name)
			}
		}
		rows = append(rows, append(cells, fmt.Sprint(sum.calls), fmt.Sprint(sum.breaking), strings.TrimPrefix(fmt.Sprint(told), "map"), fmt.Sprint(sum.found), fmt.Sprint(sum.obvious)))
	}
	t.Logf("right runs of each kind:\n%s", columns(rows))
	shown := map[string]int{}
	for _, x := range list {
		if name := x.kind.name + x.dialect.name; x.why != "" && shown[name] < 2 {
			shown[name]++
			t.Logf("wrong: %s", x.why)
		}
	}
	return below
}

// Agents that break the cache are told how, and healthy ones are left alone. The tables have the runs of each kind about which all
// that is said is right: the reason and the element that broke the prefix, in the calls where it happened, and nothing that an agent
// could avoid in the others. Beside them is the obvious rule, that fewer tokens are read than the call before has read and written.
func TestCaching(t *testing.T) {
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) { checkCaching(t, m, nil) })
	}
}

// The other hooks lead to the same verdicts.
func TestCachingInNode(t *testing.T) {
	slowtest.SkipShort(t, "slow, and TestCaching covers the analyzer")
	checkCaching(t, mode{"node", event.CaptureShape, true}, newNodes(t))
}

func TestCachingInPython(t *testing.T) {
	slowtest.SkipShort(t, "slow, and TestCaching covers the analyzer")
	checkCaching(t, mode{"python", event.CaptureFull, true}, newPythons(t))
}

func checkCaching(t *testing.T, m mode, processes *nodes) {
	t.Helper()
	for _, group := range []struct {
		name  string
		kinds []*cachingKind
		floor int
	}{{"broken", brokenCaching, 99}, {"told", toldCaching, 99}, {"healthy", healthyCaching, 100}} {
		if below := tabulate(t, group.kinds, playCaching(t, m, group.kinds, *cachingRuns, processes), group.floor); len(below) > 0 {
			t.Errorf("%s, below %d %%: %s", group.name, group.floor, strings.Join(below, ", "))
		}
	}
}

var (
	cachingRuns = flag.Int("caching", 1, "runs of each kind and dialect of agents with a prompt cache")
	cachingOnly = flag.String("caching-kind", "", "only the kinds of agents with a prompt cache whose names contain this")
)

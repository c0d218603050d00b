package analyzer

import (
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds of what is known of the processes that send events.
const (
	// gapWait is how long a gap in a sequence may be filled by events that were overtaken. It is over when a newer
	// event of the same process comes after it; a process that is cut off from NATS sends the older ones first.
	gapWait      = 30 * time.Second
	maxGaps      = 64 // of one process; the oldest is a loss
	maxInstances = 100_000
	maxStep      = 1 << 24 // a sequence or count that leaps further is garbage
	maxSpans     = 1024
)

// instance is one process that sends events.
type instance struct {
	service, environment string // of its newest event

	newest  uint64 // highest sequence seen
	at      uint64 // stream sequence of the event that had it
	dropped uint64 // exchanges it said that it dropped
	gaps    []gap  // that may still be filled, lowest first
	lost    uint64 // highest sequence that is lost for good
}

// gap is sequences from..to that did not come yet.
type gap struct {
	from, to uint64
	since    time.Time // stream time
	need     uint64    // stream sequence of the event before it
}

// span is a part of the stream that a start must read whole: to begin inside it would show a sequence that steps back.
type span struct{ before, last uint64 }

// track follows the sequence of the process that sent ev and counts what is missing.
func (a *Analyzer) track(ev *event.Event, at Position) {
	if ev.Instance == "" || ev.Seq == 0 || ev.Origin == event.OriginImport {
		return
	}
	// A process can have dropped all that came before: two events an exchange.
	nothingBefore := ev.Seq > 1 && ev.Dropped < maxStep && ev.Seq-1 <= 2*ev.Dropped
	it := a.instances.Get(ev.Instance)
	if it == nil {
		in := &instance{newest: ev.Seq, at: at.Seq, dropped: ev.Dropped}
		a.label(in, ev)
		if nothingBefore {
			a.count(MetricDropped, in, ev.Dropped, at.Seq)
			if a.cfg.Partitions <= 1 {
				a.lose(in, gap{from: 1, to: ev.Seq - 1, need: at.Seq})
			}
		}
		a.instances.Add(strings.Clone(ev.Instance), in, 0, a.now)
		return
	}
	in := it.Value
	if ev.Seq < in.newest || ev.Dropped < in.dropped || nothingBefore {
		a.keepTogether(in, at.Seq)
	}
	if step := ev.Dropped - in.dropped; ev.Dropped > in.dropped {
		if in.dropped = ev.Dropped; step <= maxStep {
			a.count(MetricDropped, in, step, in.at)
		}
	}
	if ev.Seq < in.newest {
		in.fill(ev.Seq)
	} else {
		a.advance(in, ev, at)
	}
	a.instances.Renew(it, a.now)
}

// advance takes an event whose sequence is not below the newest.
func (a *Analyzer) advance(in *instance, ev *event.Event, at Position) {
	if ev.Seq > in.newest {
		for len(in.gaps) > 0 && at.Time.Sub(in.gaps[0].since) >= gapWait {
			a.loseFirst(in)
		}
		switch missing := ev.Seq - in.newest - 1; {
		case missing > maxStep:
			a.drop(dropSequence)
		case missing > 0 && a.cfg.Partitions <= 1:
			in.gaps = append(in.gaps, gap{from: in.newest + 1, to: ev.Seq - 1, since: at.Time, need: in.at})
			if len(in.gaps) > maxGaps {
				a.loseFirst(in)
			}
		}
	}
	in.newest, in.at = ev.Seq, at.Seq
	a.label(in, ev)
}

func (a *Analyzer) label(in *instance, ev *event.Event) {
	in.service, in.environment = a.strings.string(ev.Labels.Service), a.strings.string(ev.Labels.Environment)
}

// fill takes seq out of the gap it stands in, if any.
func (in *instance) fill(seq uint64) {
	for i, g := range slices.Backward(in.gaps) {
		if seq < g.from || seq > g.to {
			continue
		}
		var rest []gap
		if g.from < seq {
			rest = append(rest, gap{g.from, seq - 1, g.since, g.need})
		}
		if seq < g.to {
			rest = append(rest, gap{seq + 1, g.to, g.since, g.need})
		}
		in.gaps = slices.Replace(in.gaps, i, i+1, rest...)
		return
	}
}

// need is the stream sequence of the oldest event that tells the same of the process.
func (in *instance) need() uint64 {
	n := in.at
	for i := range in.gaps {
		n = min(n, in.gaps[i].need)
	}
	return n
}

// instancesNeed is the oldest sequence that a start must read to know the processes; 0 when there are none.
func (a *Analyzer) instancesNeed() uint64 {
	var n uint64
	for it := range a.instances.All() {
		n = expiry.Oldest(n, it.Value.need())
	}
	return n
}

func (a *Analyzer) loseFirst(in *instance) {
	g := in.gaps[0]
	in.gaps = in.gaps[1:]
	a.lose(in, g)
}

// lose counts a gap that will not be filled.
func (a *Analyzer) lose(in *instance, g gap) {
	in.lost = max(in.lost, g.to)
	a.count(MetricLost, in, g.to-g.from+1, g.need)
}

func (a *Analyzer) count(metric string, in *instance, n, need uint64) {
	a.counter.instance(metric, in, n, need, a.now)
	if !a.emit {
		return
	}
	if metric == MetricLost {
		a.metrics.lost.Add(float64(n))
	} else {
		a.metrics.droppedByHooks.Add(float64(n))
	}
}

// giveUpInstance forgets the process that was silent longest; what it owes is lost.
func (a *Analyzer) giveUpInstance() {
	in := a.instances.TakeFirst().Value
	for len(in.gaps) > 0 {
		a.loseFirst(in)
	}
}

// mayBeLost reports whether the answer to o may have been sent and lost, so that its absence says nothing.
func (a *Analyzer) mayBeLost(o *open) bool {
	return a.lostAfter(o.row.Instance, o.row.InstanceSeq, o.dropped)
}

// lostAfter reports whether events may be missing that a process sent after its event seq, by which it had dropped so
// many exchanges: what did not come after that may have been sent.
func (a *Analyzer) lostAfter(instance string, seq, dropped uint64) bool {
	it := a.instances.Get(instance)
	if it == nil {
		return false
	}
	in, hole := it.Value, it.Value.lost
	if n := len(in.gaps); n > 0 {
		hole = max(hole, in.gaps[n-1].to)
	}
	return hole > seq || in.dropped > dropped
}

// keepTogether makes a start that reads the event at seq also read those that tell that it is an old one.
func (a *Analyzer) keepTogether(in *instance, seq uint64) {
	s := span{in.need(), seq}
	for n := len(a.spans); n > 0 && a.spans[n-1].last >= s.before; n-- {
		s.before = min(s.before, a.spans[n-1].before)
		a.spans = a.spans[:n-1]
	}
	if a.spans = append(a.spans, s); len(a.spans) > maxSpans {
		a.spans = a.spans[1:]
	}
}

// outside moves a start at seq to where no span is cut.
func (a *Analyzer) outside(seq uint64) uint64 {
	for _, s := range slices.Backward(a.spans) {
		if s.before < seq && seq <= s.last {
			return s.before
		}
	}
	return seq
}

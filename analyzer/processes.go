package analyzer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	// gapTimeout is how long overtaken events may still fill a gap in a sequence. The gap is lost when a newer event
	// of the process arrives after that: a process that was cut off from NATS sends older events first.
	gapTimeout   = 30 * time.Second
	maxGaps      = 64 // gaps of one process; beyond them, the oldest counts as lost
	maxProcesses = 100_000

	// vanishAfter is the silence after which a process has vanished whose hook sends heartbeats every minute. Two of them may be
	// late or lost.
	vanishAfter = 3*time.Minute + 10*time.Second
	maxStep     = 1 << 24 // larger increases of a sequence or count are implausible and not counted
)

// processes tracks the sequence numbers of the processes that send events and counts missing events.
type processes struct {
	queue    *expiry.Queue[string, *process] // least recently active first
	beating  *expiry.Queue[string, *process] // those that send heartbeats in this partition
	replay   *replayWindow
	strings  interner
	complete bool // there is only one partition, which sees all events of a process
}

// process is a process that sends events.
type process struct {
	service, environment string // labels of the newest event

	newest  uint64 // highest sequence number seen
	at      uint64 // stream sequence of the event with number newest
	order   uint64 // number of this event in the stream, see Position
	beat    uint64 // stream sequence of the newest heartbeat; 0 if the process sends none in this partition, or has ended
	dropped uint64 // exchanges that the process reported as dropped
	missed  missed // calls that the process reported as not captured
	gaps    []gap  // gaps that may still be filled, lowest first
	lost    uint64 // highest number counted as lost
}

// missed is a number of calls by transport.
type missed [len(transports)]uint64

// The last element is the transport of all others.
var transports = [...]string{event.TransportGRPC, event.TransportWebSocket, event.TransportHTTP3, TransportOther}

// gap is a range of missing numbers, including both ends.
type gap struct {
	from, to uint64
	since    time.Time // stream time when the gap appeared
	minSeq   uint64    // stream sequence of the event before the gap
}

func newProcesses(cfg *Config, replay *replayWindow, strings interner) *processes {
	return &processes{
		queue: expiry.NewQueue[string, *process](cfg.SessionLookback), beating: expiry.NewQueue[string, *process](vanishAfter),
		replay: replay, strings: strings, complete: cfg.Partitions <= 1,
	}
}

// track updates the sequence of the process that sent ev.
func (ps *processes) track(s *step, ev *event.Event, at Position) {
	if ev.Instance == "" || ev.Seq == 0 || ev.Origin == event.OriginImport {
		return
	}
	// The process may have dropped everything before this event: two events per exchange.
	nothingBefore := ev.Seq > 1 && ev.Dropped < maxStep && ev.Seq-1 <= 2*ev.Dropped
	e := ps.queue.Get(ev.Instance)
	if e == nil {
		p := &process{newest: ev.Seq, at: at.Seq, order: at.order(), dropped: ev.Dropped}
		ps.label(p, ev)
		if nothingBefore || ev.Seq == 1 {
			s.countUncaptured(p, ev, at.Seq)
		}
		p.missed = missedBy(ev)
		if nothingBefore {
			s.countDropped(p, ev.Dropped, at.Seq)
			if ps.complete {
				p.lose(s, gap{from: 1, to: ev.Seq - 1, minSeq: at.Seq})
			}
		}
		ps.queue.Add(strings.Clone(ev.Instance), p, 0, s.now)
		ps.heartbeat(s, p, ev, at.Seq)
		return
	}
	p := e.Value
	if ev.Seq < p.newest || ev.Dropped < p.dropped || ev.Uncaptured < p.missed.sum() || nothingBefore {
		ps.replay.keepTogether(p.minSeq(), at.Seq)
	}
	if n := ev.Dropped - p.dropped; ev.Dropped > p.dropped {
		if p.dropped = ev.Dropped; n <= maxStep {
			s.countDropped(p, n, p.at)
		}
	}
	if ev.Uncaptured > p.missed.sum() {
		s.countUncaptured(p, ev, p.at)
		p.missed = missedBy(ev)
	}
	if ev.Seq < p.newest {
		p.fill(ev.Seq)
	} else {
		again := ev.Seq == p.newest
		ps.advance(s, p, ev, at)
		if !again {
			ps.heartbeat(s, p, ev, at.Seq)
		}
	}
	ps.queue.Renew(e, s.now)
}

// heartbeat counts the reports of hooks about themselves, and tracks which processes must send the next one. Every event shows that
// its process is alive.
func (ps *processes) heartbeat(s *step, p *process, ev *event.Event, seq uint64) {
	e := ps.beating.Get(ev.Instance)
	if e != nil {
		ps.beating.Renew(e, s.now)
	}
	if ev.Kind != event.Hook || ev.HookStatus == "" {
		return
	}
	s.tallies.process(MetricHeartbeats, p, 1, seq, s.now)
	switch {
	case ev.HookStatus != event.HookAlive:
		ps.beating.Take(ev.Instance)
		p.beat = 0
		return
	case e == nil:
		ps.beating.Add(strings.Clone(ev.Instance), p, 0, s.now)
	}
	p.beat = seq
}

// vanish counts the process that has not sent a heartbeat for the longest time, although it has not ended.
func (ps *processes) vanish(s *step) {
	p := ps.beating.TakeFirst().Value
	s.tallies.process(MetricVanished, p, 1, p.minSeq(), s.now)
	p.beat = 0
}

// advance processes an event whose sequence number is at least p.newest.
func (ps *processes) advance(s *step, p *process, ev *event.Event, at Position) {
	if ev.Seq > p.newest {
		for len(p.gaps) > 0 && at.Time.Sub(p.gaps[0].since) >= gapTimeout {
			p.loseFirst(s)
		}
		switch missing := ev.Seq - p.newest - 1; {
		case missing > maxStep:
			s.drop(dropSequence)
		case missing > 0 && ps.complete:
			p.gaps = append(p.gaps, gap{from: p.newest + 1, to: ev.Seq - 1, since: at.Time, minSeq: p.at})
			if len(p.gaps) > maxGaps {
				p.loseFirst(s)
			}
		}
	}
	p.newest, p.at, p.order = ev.Seq, at.Seq, at.order()
	ps.label(p, ev)
}

func (ps *processes) label(p *process, ev *event.Event) {
	p.service, p.environment = ps.strings.string(ev.Labels.Service), ps.strings.string(ev.Labels.Environment)
}

// fill removes number n from its gap, if any.
func (p *process) fill(n uint64) {
	for i, g := range slices.Backward(p.gaps) {
		if n < g.from || n > g.to {
			continue
		}
		var rest []gap
		if g.from < n {
			rest = append(rest, gap{g.from, n - 1, g.since, g.minSeq})
		}
		if n < g.to {
			rest = append(rest, gap{n + 1, g.to, g.since, g.minSeq})
		}
		p.gaps = slices.Replace(p.gaps, i, i+1, rest...)
		return
	}
}

func (p *process) loseFirst(s *step) {
	g := p.gaps[0]
	p.gaps = p.gaps[1:]
	p.lose(s, g)
}

// lose counts the events of gap g as lost.
func (p *process) lose(s *step, g gap) {
	n := g.to - g.from + 1
	p.lost = max(p.lost, g.to)
	s.tallies.process(MetricLost, p, n, g.minSeq, s.now)
	if s.emit {
		s.metrics.lost.Add(float64(n))
	}
}

func (s *step) countDropped(p *process, n, minSeq uint64) {
	s.tallies.process(MetricDropped, p, n, minSeq, s.now)
	if s.emit {
		s.metrics.hookDropped.Add(float64(n))
	}
}

// missedBy returns the calls that a process has not captured so far.
func missedBy(ev *event.Event) (m missed) {
	rest := ev.Uncaptured
	for part := range strings.FieldsSeq(ev.UncapturedBy) {
		transport, count, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(count, 10, 64)
		if i := slices.Index(transports[:], transport); i >= 0 && err == nil && n <= rest {
			m[i], rest = n, rest-n
		}
	}
	m[len(m)-1] += rest
	return m
}

func (m *missed) sum() (n uint64) {
	for _, k := range m {
		n += k
	}
	return n
}

// countUncaptured counts the calls that p has not captured since its last event.
func (s *step) countUncaptured(p *process, ev *event.Event, minSeq uint64) {
	for i, n := range missedBy(ev) {
		if n > p.missed[i] {
			s.addUncaptured(&ev.Labels, transports[i], n-p.missed[i], minSeq)
		}
	}
}

// addUncaptured counts n calls that no hook captured.
func (s *step) addUncaptured(l *event.Labels, transport string, n, minSeq uint64) {
	if n > maxStep {
		return
	}
	s.tallies.uncaptured(l, transport, n, minSeq, s.now)
	if s.emit {
		s.metrics.uncaptured.Add(float64(n))
	}
}

// expire drops the least recently active process and counts its gaps as lost.
func (ps *processes) expire(s *step) {
	e := ps.queue.TakeFirst()
	ps.beating.Take(e.Key)
	p := e.Value
	for len(p.gaps) > 0 {
		p.loseFirst(s)
	}
}

// bound drops the least recently active processes beyond the limit.
func (ps *processes) bound(s *step) {
	for ps.queue.Len() > maxProcesses {
		s.drop(dropOverflow)
		ps.expire(s)
	}
}

// lostAfter reports whether events may be missing that the process sent after its event n, when it had dropped the
// given number of exchanges. If so, an answer that did not arrive may have been sent.
func (ps *processes) lostAfter(instance string, n, dropped uint64) bool {
	e := ps.queue.Get(instance)
	if e == nil {
		return false
	}
	p, hole := e.Value, e.Value.lost
	if last := len(p.gaps) - 1; last >= 0 {
		hole = max(hole, p.gaps[last].to)
	}
	return hole > n || p.dropped > dropped
}

// mayLack reports whether the answer to p may have been sent and lost, so that its absence proves nothing.
func (ps *processes) mayLack(p *pending) bool {
	return ps.lostAfter(p.row.Instance, p.row.InstanceSeq, p.dropped)
}

// silentSince reports whether the process is known to have sent nothing after the event with the number order.
func (ps *processes) silentSince(instance string, order uint64) bool {
	e := ps.queue.Get(instance)
	return ps.complete && e != nil && e.Value.order <= order
}

// minSeq returns the oldest sequence that a restart must read to restore the processes, or 0.
func (ps *processes) minSeq() uint64 {
	var seq uint64
	for e := range ps.queue.All() {
		seq = expiry.Oldest(seq, e.Value.minSeq())
	}
	return seq
}

func (p *process) minSeq() uint64 {
	seq := expiry.Oldest(p.at, p.beat)
	for i := range p.gaps {
		seq = min(seq, p.gaps[i].minSeq)
	}
	return seq
}

package analyzer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// Config bounds what the analyzer remembers. Its times are stream time.
type Config struct {
	Partition  int    `yaml:"-"` // of the tallies
	Partitions int    `yaml:"-"` // with more than one, none sees all events of a process, so lost ones are not counted
	Epoch      uint64 `yaml:"-"` // of the partition's lease

	ExchangeTimeout   time.Duration            `yaml:"exchange_timeout"`           // a request without a response for so long failed: no_response
	SessionLookback   time.Duration            `yaml:"session_lookback"`           // a conversation idle for so long is forgotten
	ToolReplyTimeout  time.Duration            `yaml:"tool_reply_timeout"`         // a tool call whose conversation stops for so long is abandoned; never longer than SessionLookback
	ToolReplyTimeouts map[string]time.Duration `yaml:"tool_reply_timeouts"`        // by tool, for those that take longer or shorter
	SessionBytes      int64                    `yaml:"session_bytes" unit:"bytes"` // of the stream: a start reads back no further for conversations and open requests
	StateBytes        int64                    `yaml:"state_bytes" unit:"bytes"`   // of memory for conversations, estimated; half as much for open requests, a quarter each for parts and for what is known of request bodies
	ConversationEnd   time.Duration            `yaml:"conversation_end"`           // a conversation that stops for so long after a call that the provider refused ended on that error
	MaxLabelValues    int                      `yaml:"max_label_values"`           // distinct values of a tally label per hour, then "other"
}

// Default returns the configuration for one partition.
func Default() Config {
	return Config{
		ExchangeTimeout: 15 * time.Minute, SessionLookback: 30 * time.Minute, SessionBytes: 4 << 30, StateBytes: 1 << 30,
		ToolReplyTimeout: 10 * time.Minute, ConversationEnd: 10 * time.Minute, MaxLabelValues: 200,
	}
}

// Validate returns an error that names every field out of bounds.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Partition >= 0, "partition: %d is below 0", c.Partition)
	check(c.ExchangeTimeout >= time.Second, "exchange_timeout: %v is below 1s", c.ExchangeTimeout)
	check(c.SessionLookback >= c.ExchangeTimeout, "session_lookback: %v is below exchange_timeout %v; a conversation must outlive its requests",
		c.SessionLookback, c.ExchangeTimeout)
	check(c.SessionBytes >= 1<<20, "session_bytes: %d is below 1 MiB", c.SessionBytes)
	check(c.StateBytes >= 1<<20, "state_bytes: %d is below 1 MiB", c.StateBytes)
	check(c.ToolReplyTimeout >= time.Second, "tool_reply_timeout: %v is below 1s", c.ToolReplyTimeout)
	for _, tool := range slices.Sorted(maps.Keys(c.ToolReplyTimeouts)) {
		d := c.ToolReplyTimeouts[tool]
		check(d >= time.Second, "tool_reply_timeouts: %v of %s is below 1s", d, tool)
		check(d <= c.SessionLookback, "tool_reply_timeouts: %v of %s is above session_lookback %v; a conversation must outlive its tool calls",
			d, tool, c.SessionLookback)
	}
	check(c.ConversationEnd >= time.Second, "conversation_end: %v is below 1s", c.ConversationEnd)
	check(c.MaxLabelValues >= 1, "max_label_values: %d is below 1", c.MaxLabelValues)
	return errors.Join(errs...)
}

// Fixed times and bounds.
const (
	grace        = 2 * time.Second  // how far stream time stays behind the time that Advance is told
	partsWait    = 20 * time.Second // for the other parts of a body
	responseWait = 30 * time.Second // for the request of a response that came first; it may wait for parts itself
	maxOpen      = 200_000          // requests that wait for their response
	marks        = 64               // marks of the stream's bytes within SessionBytes
	eventBytes   = 1024             // about what an event takes beside its body
)

// An Analyzer turns the events of a partition into exchanges, findings, tool calls and tallies. It is a pure function
// of the events and their positions: it has no clock and does no I/O. It is not safe for concurrent use.
type Analyzer struct {
	cfg      Config
	metrics  *metrics
	judging  *judge.Judge
	sessions *session.Store // of judging
	counter  *counter
	evicted  uint64 // conversations, as counted by metrics

	now   time.Time // stream time; never goes back
	open  *expiry.Queue[string, *open]
	early *expiry.Queue[string, *early]
	parts *expiry.Queue[partsKey, *assembly]
	held  int // bytes of parts and early, estimated
	bytes int // of open, estimated
	done  *dedupSet

	storms *expiry.Queue[uint64, *storm] // requests that were refused, by stormKey

	calls   *calls
	runs    *expiry.Queue[runKey, *run] // the longest silent first
	failing *expiry.Queue[conversationKey, *failing]

	contents contents
	ledger   *ledger.Ledger
	sighting ledger.Sighting // the exchange that is reported
	seq      uint64          // of the newest event
	nth      uint32          // how many exchanges were reported since

	instances *expiry.Queue[string, *instance] // processes that send events, the longest silent first
	spans     []span                           // disjoint, oldest first

	// recent is the requests of the responses read within responseWait, as a queue of minima: when a start reads a
	// response, its request must be read too, or the response would be taken for one that came first.
	recent []recentNeed
	read   int64 // bytes of the stream
	marks  []mark

	req      facts.Request
	res      facts.Response
	memos    *memos
	inflater inflater
	strings  interner

	emit bool
	out  *Output
}

type recentNeed struct {
	at  time.Time
	seq uint64
}

type mark struct {
	seq  uint64
	read int64
}

// New returns an Analyzer that judges requests by rules, in their order, and registers its metrics with reg. The
// configuration must be valid.
func New(cfg Config, rules []*check.Rule, reg prometheus.Registerer) *Analyzer {
	j := judge.New(rules, session.Config{Lookback: cfg.SessionLookback, Bytes: cfg.StateBytes})
	a := &Analyzer{
		cfg: cfg, metrics: newMetrics(reg), judging: j, sessions: j.Sessions, counter: newCounter(&cfg),
		open:      expiry.NewQueue[string, *open](cfg.ExchangeTimeout),
		early:     expiry.NewQueue[string, *early](responseWait),
		parts:     expiry.NewQueue[partsKey, *assembly](partsWait),
		done:      newDedupSet(cfg.SessionLookback),
		storms:    expiry.NewQueue[uint64, *storm](stormWindow),
		ledger:    ledger.New(cfg.Partitions),
		calls:     newCalls(&cfg),
		runs:      expiry.NewQueue[runKey, *run](cfg.SessionLookback),
		failing:   expiry.NewQueue[conversationKey, *failing](cfg.ConversationEnd),
		instances: expiry.NewQueue[string, *instance](cfg.SessionLookback),
		memos:     newMemos(int(cfg.StateBytes/4), cfg.SessionLookback),
		strings:   make(interner),
	}
	a.contents = contents{Store: content.New(j.Sessions), a: a}
	return a
}

// Process takes the next event of the stream and adds to out what follows from it. With emit false, in the silent
// replay after a start, it only builds state: nothing is added and out may be nil. It keeps nothing of ev's body.
func (a *Analyzer) Process(ev *event.Event, at Position, emit bool, out *Output) {
	a.emit, a.out = emit, out
	if emit {
		a.metrics.kinds[min(ev.Kind, event.Tool)].Inc()
	} else {
		a.metrics.replayed.Inc()
	}
	a.moveTo(at.Time)
	a.seq, a.nth = at.Seq, 0
	a.markRead(at.Seq, len(ev.Body)+eventBytes)
	// By the time of events, not by Advance: a new process starts at the time of the last event.
	for len(a.recent) > 0 && a.now.Sub(a.recent[0].at) > responseWait {
		a.recent = a.recent[1:]
	}
	a.track(ev, at)
	switch ev.Kind {
	case event.Request, event.Response:
		if a.again(ev) {
			break
		}
		need := at.Seq
		if ev.Parts > 1 {
			if ev, need = a.join(ev, at); ev == nil {
				break
			}
		}
		a.half(ev, at, need)
	case event.Tool:
		a.tool(ev, at)
	case event.Run:
		a.runEvent(ev, at)
	default:
		a.drop(dropKind)
	}
	a.bound()
	a.gauge()
	a.out = nil
}

// Advance says that stream time reached now with nothing pending: it times out exchanges and closes tally seconds.
// It stays two seconds behind now, because the stream's clock and the caller's may differ.
func (a *Analyzer) Advance(now time.Time, emit bool, out *Output) {
	a.AdvanceTo(now.Add(-grace), emit, out)
}

// AdvanceTo is Advance for whoever knows that nothing from before now is still to come.
func (a *Analyzer) AdvanceTo(now time.Time, emit bool, out *Output) {
	a.emit, a.out = emit, out
	a.moveTo(now)
	a.gauge()
	a.out = nil
}

// ReplayFrom is the oldest sequence that live state still needs: a new Analyzer that reads from there silently goes on
// as if nothing had happened. It is 0 when nothing is needed. For conversations and open requests it goes back
// Config.SessionBytes of the stream at most; what is lost by this is root causes, and of requests that were open for so
// long all but their response.
func (a *Analyzer) ReplayFrom() uint64 {
	need := expiry.Oldest(a.sessions.Need(), a.open.MinSeq(), a.early.MinSeq(), a.parts.MinSeq(), a.done.exchanges.MinSeq(), a.storms.MinSeq(), a.instancesNeed(), a.calls.stats.MinSeq(), a.runsNeed(), a.failing.MinSeq())
	if need > 0 && len(a.marks) > 0 {
		need = max(need, a.marks[0].seq)
	}
	if len(a.recent) > 0 {
		need = expiry.Oldest(need, a.recent[0].seq)
	}
	return a.outside(expiry.Oldest(need, a.counter.need))
}

// moveTo moves stream time on: what was due before now happens first, in the order in which it was due.
func (a *Analyzer) moveTo(now time.Time) {
	if now.Before(a.now) {
		now = a.now
	}
	for a.giveUp(now) {
	}
	a.tick(now)
}

// giveUp ends what was due first, if anything is due by now.
func (a *Analyzer) giveUp(now time.Time) bool {
	at, silent := now, false // silent: nothing comes of it, so no second need be closed for it
	var end func(*Analyzer)
	if q, t := a.calls.first(at); q != nil {
		at, end = t, (*Analyzer).giveUpCall
	}
	if t, ok := a.failing.Due(at); ok {
		at, end = t, (*Analyzer).giveUpFailing
	}
	if t, ok := a.runs.Due(at); ok {
		at, end, silent = t, (*Analyzer).giveUpRun, true
	}
	if t, ok := a.instances.Due(at); ok {
		at, end, silent = t, (*Analyzer).giveUpInstance, len(a.instances.First().Value.gaps) == 0
	}
	if t, ok := a.parts.Due(at); ok {
		at, end, silent = t, (*Analyzer).giveUpParts, false
	}
	if t, ok := a.early.Due(at); ok {
		at, end, silent = t, (*Analyzer).giveUpEarly, false
	}
	if t, ok := a.open.Due(at); ok {
		at, end, silent = t, (*Analyzer).giveUpOpen, false
	}
	if end == nil {
		return false
	}
	if !silent {
		a.tick(at)
	}
	end(a)
	return true
}

// tick sets stream time.
func (a *Analyzer) tick(now time.Time) {
	if now.Before(a.now) {
		return
	}
	a.now = now
	a.counter.moveTo(now, a.publish)
	a.sessions.Expire(now)
	a.done.exchanges.Expire(now)
	for _, due := a.storms.Due(now); due; _, due = a.storms.Due(now) {
		a.storms.TakeFirst()
	}
	a.calls.stats.Expire(now)
}

// used remembers for a while that a response was not waited with because of the event need.
func (a *Analyzer) used(need uint64) {
	for len(a.recent) > 0 && a.recent[len(a.recent)-1].seq >= need {
		a.recent = a.recent[:len(a.recent)-1]
	}
	a.recent = append(a.recent, recentNeed{a.now, need})
}

// markRead notes how far back SessionBytes of the stream go.
func (a *Analyzer) markRead(seq uint64, n int) {
	a.read += int64(n)
	if len(a.marks) == 0 || a.read-a.marks[len(a.marks)-1].read >= a.cfg.SessionBytes/marks {
		a.marks = append(a.marks, mark{seq, a.read})
	}
	for a.read-a.marks[0].read > a.cfg.SessionBytes {
		a.marks = a.marks[1:]
	}
}

// bound keeps what waits within its bounds; the oldest goes first.
func (a *Analyzer) bound() {
	for a.held > max(minJoined, int(a.cfg.StateBytes/4)) {
		a.drop(dropOverflow)
		switch p, e := a.parts.First(), a.early.First(); {
		case p != nil && (e == nil || p.MinSeq < e.MinSeq):
			a.giveUpParts()
		default:
			a.giveUpEarly()
		}
	}
	for a.open.Len() > maxOpen || a.bytes > int(a.cfg.StateBytes/2) {
		a.drop(dropOverflow)
		a.takeOpen(a.open.First().Key)
	}
	for a.runs.Len() > maxRuns {
		a.drop(dropOverflow)
		a.giveUpRun()
	}
	for a.instances.Len() > maxInstances {
		a.drop(dropOverflow)
		a.giveUpInstance()
	}
}

func (a *Analyzer) gauge() {
	m := a.metrics
	m.sessions.Set(float64(a.sessions.Len()))
	m.state.Set(float64(a.sessions.Bytes()))
	m.open.Set(float64(a.open.Len()))
	m.instances.Set(float64(a.instances.Len()))
	for ; a.evicted < a.sessions.Evicted(); a.evicted++ {
		a.drop(dropSession)
	}
}

// drop counts something that was not used.
func (a *Analyzer) drop(reason string) {
	if a.emit {
		a.metrics.dropped.WithLabelValues(reason).Inc()
	}
}

func (a *Analyzer) publish(t Tally) {
	if a.emit {
		a.metrics.tick.Inc()
		a.out.Tallies = append(a.out.Tallies, t)
	}
}

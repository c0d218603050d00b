package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// state is everything that the analyzer keeps because it waits for a later event: what it is, until when it waits, and what
// happens beyond its bound, which counts as dropped. Only the ledger waits for a caller and not for the stream.
//
//	what                   waits for                    until                     at most
//	exchanges.pending      the response                 ExchangeTimeout           200,000; MaxStateBytes/2: oldest first
//	exchanges.early        the request                  30 s                      MaxStateBytes/4, but two bodies at least, with
//	exchanges.parts        other parts of a body        20 s                      the parts: oldest first
//	exchanges.completed    the same event again         SessionLookback or more   2,000,000: oldest generation first
//	judge.Sessions         the conversation's next turn SessionLookback           MaxStateBytes: least recently active first
//	calls                  the reply to a tool call     ToolReplyTimeout(s)       200,000: oldest of the longest queue first
//	calls.stats            calls of the same tool       SessionLookback or more   50,000 tools: oldest generation first
//	runs                   the run's next event         SessionLookback           100,000, 256 calls each: least recently active first
//	endings                the conversation's next call ConversationIdleTimeout   200,000: oldest first
//	processes              the process's next event     SessionLookback           100,000, 64 gaps each: least recently active first
//	detector               calls like those before      SessionLookback           10,000 refused requests: oldest first
//	contents.sampler       texts of the same hour       the hour ends             4,096 services
//	prompts.stages         prompts of the same stage    SessionLookback, 1 hour   1,024 stages, 64 KiB each: oldest generation first
//	memory                 TakeLedger                   the caller stores it      100,000 entries over all partitions
//
// Findings wait in their exchange. The counts of the running second are in step.tallies, and the caller has the rows.
type state struct {
	exchanges *exchanges
	judge     *judge.Judge
	calls     *toolCalls
	runs      *runs
	endings   *endings
	processes *processes
	detector  *signals.Detector
	prompts   *prompts
	memory    memory
	replay    *replayWindow

	// oldest is the oldest sequence that the state depended on at stream time oldestAt, or 0.
	oldest   uint64
	oldestAt time.Time
}

func newState(cfg *Config, j *judge.Judge, strings interner) state {
	replay := newReplayWindow(cfg.SessionLookbackBytes)
	processes := newProcesses(cfg, replay, strings)
	calls := newToolCalls(cfg, j.Sessions, processes, strings)
	return state{
		exchanges: newExchanges(cfg, replay),
		judge:     j,
		calls:     calls,
		runs:      newRuns(cfg, calls, processes, strings),
		endings:   newEndings(cfg, processes),
		processes: processes,
		detector:  signals.NewDetector(j.Sessions, cfg.ExchangeTimeout),
		prompts:   newPrompts(cfg, strings),
		memory:    memory{Ledger: ledger.New(cfg.Partitions)},
		replay:    replay,
	}
}

// read records the event at a position, whose process may have sent it late.
func (st *state) read(s *step, ev *event.Event, at Position) {
	st.replay.read(at.Seq, len(ev.Body)+payload.EventBytes, s.now)
	st.processes.track(s, ev, at)
}

// A timeout is the expiry of the first element of a part of the state.
type timeout struct {
	at     time.Time
	silent bool // no row is emitted, so no tally second must close
	expire func(*Analyzer)
}

// next returns the first timeout due by now, or false. Among equal deadlines, it is the one checked last.
func (st *state) next(now time.Time) (timeout, bool) {
	t := timeout{at: now}
	due := func(at time.Time, ok bool) bool {
		if ok {
			t.at, t.silent = at, false
		}
		return ok
	}
	if due(st.calls.due(t.at)) {
		t.expire = func(a *Analyzer) { a.calls.expire(&a.step) }
	}
	if due(st.endings.queue.Due(t.at)) {
		t.expire = func(a *Analyzer) { a.endings.expire(&a.step) }
	}
	if due(st.runs.queue.Due(t.at)) {
		t.silent, t.expire = true, func(a *Analyzer) { a.runs.queue.TakeFirst() }
	}
	if due(st.processes.queue.Due(t.at)) {
		t.silent, t.expire = len(st.processes.queue.First().Value.gaps) == 0, func(a *Analyzer) { a.processes.expire(&a.step) }
	}
	if due(st.processes.beating.Due(t.at)) {
		t.expire = func(a *Analyzer) { a.processes.vanish(&a.step) }
	}
	if due(st.exchanges.parts.Due(t.at)) {
		t.expire = (*Analyzer).expireParts
	}
	if due(st.exchanges.early.Due(t.at)) {
		t.expire = (*Analyzer).expireEarly
	}
	if due(st.exchanges.pending.Due(t.at)) {
		t.expire = (*Analyzer).expirePending
	}
	return t, t.expire != nil
}

// forget drops the state whose expiry has no effect of its own.
func (st *state) forget(now time.Time) {
	st.judge.Sessions.Expire(now)
	st.exchanges.completed.exchanges.Expire(now)
	st.detector.Expire(now)
	st.calls.stats.Expire(now)
	st.prompts.stages.Expire(now)
}

// replayFrom returns the oldest sequence that the state depends on, or 0; it may be that of a second before. tally is the one
// that the pending tally depends on.
func (st *state) replayFrom(now time.Time, tally uint64, sampler *content.Sampler) uint64 {
	// Looking through all processes and runs takes milliseconds if there are many. What is read later depends on nothing older.
	if st.oldest == 0 || now.Sub(st.oldestAt) >= time.Second {
		st.oldest = expiry.Oldest(st.judge.Sessions.MinSeq(), st.exchanges.minSeq(), st.detector.MinSeq(), st.processes.minSeq(), st.calls.stats.MinSeq(),
			st.runs.minSeq(), st.endings.minSeq(), st.prompts.stages.MinSeq(), sampler.MinSeq(now))
		st.oldestAt = now
	}
	return st.replay.from(st.oldest, tally)
}

// measure updates the gauges of s.
func (st *state) measure(s *step) {
	sessions := st.judge.Sessions
	s.metrics.sessions.Set(float64(sessions.Len()))
	s.metrics.state.Set(float64(sessions.Bytes()))
	s.metrics.pending.Set(float64(st.exchanges.pending.Len()))
	s.metrics.processes.Set(float64(st.processes.queue.Len()))
	s.dropN(dropSession, sessions.TakeEvicted())
}

package analyzer

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
)

const (
	marks    = 64 // marks within the look-back
	maxSpans = 1024
)

// A replayWindow determines where a restart must begin to read the stream.
type replayWindow struct {
	lookback  int64 // maximum bytes of the stream to replay
	bytesRead int64
	marks     []mark // oldest first

	// recent contains the requests of the responses read within requestTimeout, as a queue of minima. A restart that
	// reads a response must also read its request. Otherwise the response would look like one that arrived first.
	recent []recentRequest
	spans  []span // disjoint, oldest first
}

type mark struct {
	seq       uint64
	bytesRead int64
}

type recentRequest struct {
	at  time.Time
	seq uint64
}

// A span is a part of the stream that a restart must read completely or not at all. A restart inside it would see a
// sequence that goes backwards, or take a repeated event for a new one.
type span struct{ first, last uint64 }

func newReplayWindow(lookback int64) *replayWindow { return &replayWindow{lookback: lookback} }

// read records that the event at seq, of n bytes, was read at stream time now.
func (w *replayWindow) read(seq uint64, n int, now time.Time) {
	w.bytesRead += int64(n)
	if len(w.marks) == 0 || w.bytesRead-w.marks[len(w.marks)-1].bytesRead >= w.lookback/marks {
		w.marks = append(w.marks, mark{seq, w.bytesRead})
	}
	for w.bytesRead-w.marks[0].bytesRead > w.lookback {
		w.marks = w.marks[1:]
	}
	// Use the time of events, not of Advance, because a new process starts at the time of the last event.
	for len(w.recent) > 0 && now.Sub(w.recent[0].at) > requestTimeout {
		w.recent = w.recent[1:]
	}
}

// used records that the response read at stream time now depends on the event at seq.
func (w *replayWindow) used(seq uint64, now time.Time) {
	for len(w.recent) > 0 && w.recent[len(w.recent)-1].seq >= seq {
		w.recent = w.recent[:len(w.recent)-1]
	}
	w.recent = append(w.recent, recentRequest{now, seq})
}

// keepTogether makes a restart read either all or none of the events from first to last, as far as they are within the
// look-back: spans that overlap are one span, and could otherwise grow with the stream.
func (w *replayWindow) keepTogether(first, last uint64) {
	s := span{first, last}
	for n := len(w.spans); n > 0 && w.spans[n-1].last >= s.first; n-- {
		s.first, s.last = min(s.first, w.spans[n-1].first), max(s.last, w.spans[n-1].last)
		w.spans = w.spans[:n-1]
	}
	if len(w.marks) > 0 {
		s.first = max(s.first, w.marks[0].seq)
	}
	if w.spans = append(w.spans, s); len(w.spans) > maxSpans {
		w.spans = w.spans[1:]
	}
}

// from returns the sequence at which a restart must begin, or 0. state and tally are the oldest sequences that the
// state and the pending tally depend on.
func (w *replayWindow) from(state, tally uint64) uint64 {
	seq := state
	if seq > 0 && len(w.marks) > 0 {
		seq = max(seq, w.marks[0].seq)
	}
	if len(w.recent) > 0 {
		seq = expiry.Oldest(seq, w.recent[0].seq)
	}
	seq = expiry.Oldest(seq, tally)
	for _, s := range slices.Backward(w.spans) {
		if s.first < seq && seq <= s.last {
			return s.first
		}
	}
	return seq
}

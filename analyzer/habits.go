package analyzer

import "time"

// Bounds of what is known of how agents use tools.
const (
	habitQuarters = 4      // generations that the memory's time is divided into
	maxHabits     = 50_000 // (service, tool) in all generations
	fewCalls      = 5      // so many calls say nothing of a habit
)

// A habit counts what became of the calls of one tool of one service.
type habit struct{ answered, quiet, missing uint32 }

// terminal reports whether the agent hardly ever replies to the tool's calls: they are the answer itself, such as a
// structured output.
func (h habit) terminal() bool {
	n := h.quiet + h.missing
	return n >= fewCalls && 20*h.answered < n
}

// replied reports whether the agent is known to reply to the tool's calls, so that a reply which does not come is
// remarkable. A tool of which little is known is not.
func (h habit) replied() bool { return h.answered >= 3 && h.answered >= 4*h.quiet && !h.terminal() }

type habitKey struct{ service, tool string }

// habits remembers for the time of the conversations, in generations of a quarter of it, which start at fixed stream
// times and are forgotten whole: what is known then depends only on a part of the stream that a start reads again.
type habits struct {
	quarter     int64 // in seconds
	generations []habitGeneration
	size        int
}

type habitGeneration struct {
	quarter int64
	need    uint64 // oldest sequence that its counts were made from
	counts  map[habitKey]habit
}

func newHabits(wait time.Duration) *habits {
	return &habits{quarter: max(int64(wait/time.Second)/habitQuarters, 1)}
}

// add counts one more call of k.
func (h *habits) add(k habitKey, one habit, need uint64, now time.Time) {
	q := now.Unix() / h.quarter
	for h.size >= maxHabits {
		h.forget()
	}
	if n := len(h.generations); n == 0 || h.generations[n-1].quarter < q {
		h.generations = append(h.generations, habitGeneration{quarter: q, need: need, counts: make(map[habitKey]habit)})
	}
	g := &h.generations[len(h.generations)-1]
	g.need = min(g.need, need)
	c, known := g.counts[k]
	if !known {
		h.size++
	}
	g.counts[k] = habit{c.answered + one.answered, c.quiet + one.quiet, c.missing + one.missing}
}

// of adds up what is known of k.
func (h *habits) of(k habitKey) (sum habit) {
	for i := range h.generations {
		c := h.generations[i].counts[k]
		sum.answered, sum.quiet, sum.missing = sum.answered+c.answered, sum.quiet+c.quiet, sum.missing+c.missing
	}
	return sum
}

func (h *habits) expire(now time.Time) {
	q := now.Unix() / h.quarter
	for len(h.generations) > 0 && h.generations[0].quarter < q-habitQuarters {
		h.forget()
	}
}

func (h *habits) forget() {
	h.size -= len(h.generations[0].counts)
	h.generations[0] = habitGeneration{}
	h.generations = h.generations[1:]
}

// required is the oldest sequence that is remembered; 0 when nothing is.
func (h *habits) required() uint64 {
	var n uint64
	for i := range h.generations {
		n = oldest(n, h.generations[i].need)
	}
	return n
}

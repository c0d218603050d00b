package analyzer

import (
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
)

const (
	maxToolStats = 50_000 // pairs of service and tool in all generations
	fewCalls     = 5      // fewer unanswered calls prove nothing
)

// toolCounts counts the outcomes of calls of one tool in one service.
type toolCounts struct{ answered, abandoned, missing uint32 }

// terminal reports whether the agent hardly ever replies to calls of the tool, because the calls are the answer
// itself, such as a structured output.
func (c toolCounts) terminal() bool {
	n := c.abandoned + c.missing
	return n >= fewCalls && 20*c.answered < n
}

// replied reports whether the agent usually replies to calls of the tool, so that a missing reply is suspicious. It is
// false for a tool with few known calls.
func (c toolCounts) replied() bool {
	return c.answered >= 3 && c.answered >= 4*c.abandoned && !c.terminal()
}

type toolKey struct{ service, tool string }

// toolStats contains the outcomes of tool calls within the look-back period of conversations.
type toolStats struct {
	*expiry.Generations[toolKey, toolCounts]
}

func newToolStats(lookback time.Duration) toolStats {
	return toolStats{expiry.NewGenerations[toolKey, toolCounts](lookback, maxToolStats)}
}

// add adds the counts one to the newest counts of k.
func (s toolStats) add(k toolKey, one toolCounts, minSeq uint64, now time.Time) {
	c := s.Newest(k, now)
	s.Put(k, toolCounts{c.answered + one.answered, c.abandoned + one.abandoned, c.missing + one.missing}, minSeq, now)
}

// of returns the sum of the counts of k in all generations.
func (s toolStats) of(k toolKey) (sum toolCounts) {
	for c := range s.All(k) {
		sum = toolCounts{sum.answered + c.answered, sum.abandoned + c.abandoned, sum.missing + c.missing}
	}
	return sum
}

package wording

import (
	"slices"
	"testing"

	"github.com/llmtap/llmtap/analyzer/signals"
)

// Whoever adds a signal decides whether its summary or evidence quotes a message or an error. Those of the other signals name
// ids, numbers, rules and versions only.
func TestQuotingIsDecided(t *testing.T) {
	others := []string{
		signals.AgentLoop, signals.CacheBroken, signals.ConcurrentRequests, signals.ConversationEndedOnError, signals.FinishMismatch, signals.HistoryRewritten, signals.HistoryShrunk, signals.LatentViolation,
		signals.MaskedFailure, signals.ModelChanged, signals.PoisonedSession, signals.ProviderTightened, signals.ReplyNeverArrived, signals.RetryStorm, signals.SanitizerAtWork, signals.TruncatedToolCall,
	}
	for _, d := range signals.All {
		if slices.Contains(Quoting, d.ID) == slices.Contains(others, d.ID) {
			t.Errorf("%s must be in Quoting, if it quotes, or else in the list of this test", d.ID)
		}
	}
}

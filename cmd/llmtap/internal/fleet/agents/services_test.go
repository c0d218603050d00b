package agents

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Some refunds get no reply, but fewer than the 5 that MissingToolReplies requires: whether a fifth one falls into the last
// evaluation of that rule would depend on the speed of the machine.
func TestSkippedRefunds(t *testing.T) {
	for _, tasks := range []int{80, 10_000} {
		skipped := 0
		for i := range tasks {
			_, stages := support.task(i, fmt.Sprint(i), rand.New(rand.NewPCG(1, uint64(i))))
			var m message
			for range strings.Count(stages[1].user, toolRefund) {
				m.ToolCalls = append(m.ToolCalls, toolCall{Function: function{Name: toolRefund}})
			}
			replies := stages[1].saver.replies(nil, m, func(toolCall) string { return "" })
			skipped += len(m.ToolCalls) - len(replies)
		}
		if skipped != maxSkipped || skipped >= 5 {
			t.Errorf("%d tasks: %d refunds are skipped, want %d", tasks, skipped, maxSkipped)
		}
	}
}

// The alert of the demo is critical from the 20th call on, whenever it is evaluated: more than 32 % of the planner's calls fail,
// although a planner of the old version makes up to 4 successful calls per task.
func TestPlannerFailsEarly(t *testing.T) {
	cfg := Default()
	for seed := range uint64(20) {
		calls, failed := 0, 0
		for i := range checkout.tasks(&cfg) {
			version, stages := checkout.task(i, fmt.Sprint(i), rand.New(rand.NewPCG(seed, uint64(i))))
			switch {
			case version == 0:
				calls += 4
			case strings.Contains(stages[0].user, "\n- "): // it has steps, so the planner loses tool calls
				calls, failed = calls+2, failed+1
			default:
				calls++
			}
			if calls >= 20 && float64(failed) <= 0.32*float64(calls) {
				t.Fatalf("seed %d: after task %d only %d of %d calls failed", seed, i, failed, calls)
			}
		}
	}
}

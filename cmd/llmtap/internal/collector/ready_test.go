package collector

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A receiver is listed if it has accepted nothing for a minute although something waits.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	state := func(waiting int, failed time.Duration, err error) engine.ReceiverState {
		return engine.ReceiverState{Name: "slack #oncall", Waiting: waiting, FailedAt: now.Add(-failed), Err: err}
	}
	revoked := errors.New("chat.postMessage: token_revoked; install the app again")
	got := undelivered([]engine.ReceiverState{state(2, 10*time.Second, revoked), state(0, time.Hour, revoked), state(2, time.Hour, nil)}, now)
	must.Do(t, got, "listed")
	want := "notifications to slack #oncall: 12 waiting, none accepted for 5m0s: chat.postMessage: token_revoked; install the app again"
	must.Equal(t, fmt.Sprint(undelivered([]engine.ReceiverState{state(12, 5*time.Minute, revoked)}, now)), want, "error")
}

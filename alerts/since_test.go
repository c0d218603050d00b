package alerts

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// since returns the last failure and the calls since, of the alert and of its versions.
func (ev Evidence) since() string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return fmt.Sprint("at ", t.Unix()%1000)
	}
	out := []string{fmt.Sprintf("%s, %d since", at(ev.LastFailed), ev.CallsSince)}
	for _, v := range ev.Versions {
		out = append(out, fmt.Sprintf("%s %d/%d %s, %d since", v.Version, v.Failed, v.Calls, at(v.LastFailed), v.CallsSince))
	}
	return strings.Join(out, "; ")
}

// An alert reports the second of the last failed call and the exact number of calls since, also of versions that began
// later, while it fires without new failures and once it is resolved.
func TestCallsSinceLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.sec = b.sec / 1000 * 1000
		want := func(text string) {
			t.Helper()
			if got := b.sent.last().Alerts[0].Evidence.since(); got != text {
				t.Errorf("%s\nwant %s", got, text)
			}
		}
		b.second(calls("1.0", 30))
		b.second(calls("1.1", 30), failures("1.1", "x", "", 15))
		b.second(calls("1.1", 30), failures("1.1", "x", "", 15)) // second 2
		b.second(calls("1.1", 3))                                // in the same step
		b.idle(10 * time.Second)
		want("at 2, 3 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since")
		b.idle(10 * time.Minute)
		b.second(calls("1.2", 80)) // the window of the failures is over
		b.idle(20 * time.Second)
		want("at 2, 83 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/80 never, 80 since")
		b.second(calls("1.2", 4))
		b.idle(20 * time.Second)
		want("at 2, 87 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/84 never, 84 since")
		b.idle(10 * time.Minute)
		if b.sent.last().Firing() {
			t.Error("not resolved")
		}
		want("at 2, 87 since; 1.0 0/30 never, 30 since; 1.1 30/63 at 2, 3 since; 1.2 0/84 never, 84 since")
	})
}

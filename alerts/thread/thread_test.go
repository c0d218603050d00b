package thread

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// medium records messages; an error of it is the outcome of the next one.
type medium struct {
	messages []*Message
	err      error
}

func (m *medium) send(_ context.Context, x *Message) error {
	m.messages = append(m.messages, x)
	err := m.err
	m.err = nil
	return err
}

// A group that ends while the medium fails is shown if its first message may have arrived, and only then.
func TestMissed(t *testing.T) {
	f := func(err error, want int) {
		t.Helper()
		m, threads := &medium{err: err}, New("test", "", alerts.NotifierOptions{})
		g := alertstest.Steps()[3]
		must.Equal(t, threads.Notify(t.Context(), alertstest.Incident(), m.send), err, "error")
		g.Missed = true
		must.Do(t, threads.Notify(t.Context(), g, m.send))
		must.Equal(t, len(m.messages), want, "messages after %v", err)
		if want == 2 {
			must.Equal(t, m.messages[1].First, m.messages[0].ID, "thread")
			must.Equal(t, m.messages[1].ID == m.messages[0].ID, false, "a mailbox drops the second message")
		}
	}
	f(&alerts.RetryError{Doubt: true, Err: errors.New("timeout")}, 2)
	f(&alerts.RetryError{Err: errors.New("busy")}, 1)
	f(errors.New("rejected"), 1)
}

// Readers who do not know of a muted group are sent nothing, the next incident is another thread, and a reminder says that the group still
// fires.
func TestThreads(t *testing.T) {
	m, threads := &medium{}, New("test", "", alerts.NotifierOptions{})
	notify := func(g alerts.Group) *Message {
		t.Helper()
		before := len(m.messages)
		must.Do(t, threads.Notify(t.Context(), g, m.send))
		if len(m.messages) == before {
			return nil
		}
		return m.messages[before]
	}
	hidden := alertstest.Incident()
	hidden.Alerts[0].Inhibitor = &alerts.Inhibitor{Name: "ProviderOutage"}
	must.Equal(t, notify(hidden), nil, "message of a hidden group")
	first := notify(alertstest.Incident())
	reminder := alertstest.Incident()
	reminder.Repeat = true
	again := notify(reminder)
	must.Equal(t, again.First, first.ID, "thread")
	must.Contain(t, again.News[0].String(), "🔔 Still firing after 2 min: WARNING checkout-agent/planner")
	must.Equal(t, notify(hidden).News[0].String(), "🔗 Part of ProviderOutage", "news")
	must.Equal(t, notify(hidden), nil, "the same again")
	next := alertstest.Incident()
	next.Alerts[0].StartsAt = next.Alerts[0].UpdatedAt.AddDate(0, 0, 1)
	next.Alerts[0].UpdatedAt = next.Alerts[0].StartsAt
	other := notify(next)
	must.Equal(t, other.First+other.Reference, other.ID, "first message of the next incident")
	must.Equal(t, other.ID == first.ID, false, "the same thread")
}

func TestLine(t *testing.T) {
	got := lines([]string{mark.Bold("Last failure") + " in " + mark.Code("a\x01b\x03", 10) + ":bell:\nnext"})
	must.Agree(t, cmp.Diff([]Line{{{Text: "Last failure", Bold: true}, {Text: " in "}, {Text: "ab", Mono: true}, {Text: "🔔"}}, {{Text: "next"}}}, got))
	must.Equal(t, strings.ContainsAny(got[0].String(), bold+mono+plain), false, "marks")
}

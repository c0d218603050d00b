package slack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A press by somebody who is not allowed changes nothing, is stored, and says who is allowed.
func TestNotAllowed(t *testing.T) {
	guest := user{"U000GUEST", "guest", "T2"}
	f := func(allowed []string, groups func() string, by user, want, told string) {
		t.Helper()
		w, cfg := newWorkspace(t)
		w.group, cfg.Allowed = groups, allowed
		c := &testControls{g: group(incident())}
		p := start(t, cfg, c, nil)
		must.Wait(t, "connection", func() bool { return p.reports() == "works" })
		notify(t, p.n, c.group())
		w.press(0, "e1", w.callback(by, "acknowledge", "", "1.1"))
		must.Wait(t, "acknowledgement", func() bool { return w.acks("e1") == 1 })
		if got := c.calls(); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%v, %s: calls %q, want %q", allowed, by.name, got, want)
		}
		if got := w.told(); !strings.Contains(got, told) || (told == "") != (got == "") {
			t.Errorf("%v, %s: told %q, want %q", allowed, by.name, got, told)
		}
		w.press(0, "e2", w.callback(by, "show_query", "", "1.2")) // changes nothing, so everyone may
		must.Wait(t, "query", func() bool { return w.acks("e2") == 1 })
		must.Contain(t, w.told(), "llmtap query causes")
	}
	members := func(ids string) func() string {
		return func() string { return `{"ok":true,"users":[` + ids + `]}` }
	}
	const yes, no = "acknowledge ", "refuse acknowledge of StageFailureRate{"
	f(nil, nil, anna, yes, "")
	f(nil, nil, guest, no, "members of this workspace may do this")
	f([]string{anna.id}, nil, anna, yes, "")
	f([]string{anna.id}, nil, bob, no, "<@U0000ANNA> may do this")
	f([]string{anna.id, "S0000000001"}, members(`"U9","`+bob.id+`"`), bob, yes, "")
	f([]string{anna.id, "S0000000001"}, members(`"U9"`), bob, no, "<@U0000ANNA>, <!subteam^S0000000001> may do this")
	f([]string{"S0000000001"}, func() string { return `{"ok":false,"error":"missing_scope"}` }, bob, "", "cannot find out who may do this")
	f([]string{"S0000000001", bob.id}, func() string { return `{"ok":false,"error":"missing_scope"}` }, bob, yes, "")
}

// By default, everyone of the app's workspace or organization may press, and no guest, although a guest's press is in that
// workspace, too.
func TestLocal(t *testing.T) {
	f := func(team string, want bool) {
		t.Helper()
		l := newAllowList(nil, nil)
		l.home = &slack.AuthTestResponse{TeamID: "T1", EnterpriseID: "E1"}
		list := presses(&slack.InteractionCallback{
			Type: slack.InteractionTypeBlockActions, User: slack.User{ID: "U0000ANNA", TeamID: team}, Team: slack.Team{ID: "T1", EnterpriseID: "E1"},
			Enterprise: slack.Enterprise{ID: "E1"}, ActionCallback: slack.ActionCallbacks{BlockActions: []*slack.BlockAction{
				{ActionID: actionPrefix + acknowledge, Value: targetOf(group(incident())).String()},
			}},
		})
		if len(list) != 1 {
			t.Fatalf("%d presses", len(list))
		}
		if got, err := l.allows(t.Context(), list[0]); got != want || err != nil {
			t.Errorf("user of %q: %v, %v", team, got, err)
		}
	}
	f("T1", true)
	f("E1", true)
	f("T2", false)
	f("E2", false)
	f("", false)
}

// The members of a user group are cached, and the last known ones count while Slack does not answer.
func TestMembersCache(t *testing.T) {
	w, cfg := newWorkspace(t)
	answer := fmt.Sprintf(`{"ok":true,"users":[%q]}`, anna.id)
	w.group, cfg.Allowed = func() string { return answer }, []string{"S0000000001"}
	p := start(t, cfg, &testControls{}, nil)
	l := newAllowList(cfg.Allowed, p.n.api)
	now := t0
	l.now = func() time.Time { return now }
	f := func(by user, after time.Duration, want bool, lookups int) {
		t.Helper()
		now = now.Add(after)
		ctx := t.Context()
		one := &press{}
		one.user.ID = by.id
		if got, err := l.allows(ctx, one); got != want || err != nil || get(w, func() int { return w.lookups }) != lookups {
			t.Errorf("%s: %v, %v after %d lookups", by.name, got, err, get(w, func() int { return w.lookups }))
		}
	}
	f(anna, 0, true, 1)
	f(bob, membersTTL-time.Second, false, 1)
	answer = `{"ok":false,"error":"fatal_error"}`
	f(anna, time.Second, true, 2)
	f(anna, time.Second, true, 2) // not with every press
	answer = fmt.Sprintf(`{"ok":true,"users":[%q]}`, bob.id)
	f(anna, time.Minute, false, 3)
	f(bob, 0, true, 3)
}

// A silence until tomorrow ends at 9:00 where the person is; without the scope for that, at 9:00 UTC, and says so.
func TestSilenceUntilTomorrow(t *testing.T) {
	f := func(zone, told string) {
		t.Helper()
		w, c, _ := connected(t, nil)
		w.mu.Lock()
		w.zone = zone
		w.mu.Unlock()
		w.press(0, "e1", w.callback(anna, "silence", "until tomorrow 9:00", "1.1"))
		must.Wait(t, "acknowledgement", func() bool { return w.acks("e1") == 1 })
		place := zone
		if zone == "" {
			place = "UTC"
		}
		in := must.Get(time.LoadLocation(place))(t)
		list := c.Silences()
		if len(list) != 1 || list[0].EndsAt.In(in).Format("15:04:05") != "09:00:00" {
			t.Fatalf("silences %+v", list)
		}
		if d := list[0].EndsAt.In(in).YearDay() - time.Now().In(in).YearDay(); d != 1 && d > -300 {
			t.Errorf("ends after %d days", d)
		}
		if got := w.told(); !strings.Contains(got, told) || (told == "") != (got == "") {
			t.Errorf("told %q, want %q", got, told)
		}
	}
	f("Asia/Tokyo", "")
	f("", "ends at 9:00 UTC")
}

package slack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// log returns the messages: the id of the channel, whether it is a reply, who is mentioned, and the first words.
func (f *fake) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, m := range f.messages {
		line := m.Channel
		if m.Thread != "" {
			line += " reply"
		}
		text := m.Text
		for strings.HasPrefix(text, "<") {
			var who string
			who, text, _ = strings.Cut(text, " ")
			line += " " + who
		}
		for _, word := range []string{"Still firing", "CRITICAL", "WARNING"} {
			if strings.Contains(text, word) {
				line += " " + word
				break
			}
		}
		if m.Edits > 0 {
			line += " (edited)"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func wantLog(t *testing.T, f *fake, want ...string) {
	t.Helper()
	must.Equal(t, f.log(), strings.Join(want, "\n"), "messages")
}

func warning() alerts.Alert {
	a := incident()
	a.Labels = map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "severity": "warning"}
	return a
}

// escalated returns a group whose alert has become critical.
func escalated() alerts.Group {
	over := warning()
	over.State, over.EndsAt = alerts.Resolved, t0.Add(time.Minute)
	critical := incident()
	critical.StartsAt, critical.UpdatedAt = t0.Add(time.Minute), t0.Add(time.Minute)
	return group(over, critical)
}

// The first post and an escalation mention people, and nothing else does.
func TestMentions(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Routes = []Route{{Match: []string{`service="checkout-agent"`}, Mention: []string{"@checkout-oncall", "@unknown"}}}
	cfg.Mentions = map[string][]string{"critical": {"@here", "U0000ANNA", "S0000000002", "@checkout-oncall"}}
	n := newNotifier(t, cfg, &alertstest.Store{})
	notify(t, n, group(warning()))
	must.Contain(t, f.top()[0].Blocks, `\u003c!subteam^S0000000001\u003e @unknown`, "the mention in the blocks")
	notify(t, n, group(warning()))
	if m := f.top()[0]; strings.Contains(m.Blocks, "subteam") || strings.Contains(m.Text, "subteam") {
		t.Errorf("an edit mentions: %+v", m)
	}
	notify(t, n, escalated())
	notify(t, n, escalated())
	reminder := escalated()
	reminder.Repeat = true
	notify(t, n, reminder)
	back := escalated()
	back.Alerts[1].State, back.Alerts[1].EndsAt = alerts.Resolved, t0.Add(2*time.Minute)
	again := warning()
	again.StartsAt, again.UpdatedAt = t0.Add(2*time.Minute), t0.Add(2*time.Minute)
	back.Alerts = append(back.Alerts, again)
	notify(t, n, back)
	again.State, again.EndsAt = alerts.Resolved, t0.Add(3*time.Minute)
	worse := incident()
	worse.StartsAt, worse.UpdatedAt = t0.Add(3*time.Minute), t0.Add(3*time.Minute)
	notify(t, n, group(append(back.Alerts[:2:2], again, worse)...))
	wantLog(t, f, "C123 CRITICAL (edited)", "C123 reply <!subteam^S0000000001> CRITICAL", "C123 reply Still firing", "C123 reply WARNING", "C123 reply CRITICAL")
	if text := f.thread()[0].Text; !strings.HasPrefix(text, "<!subteam^S0000000001> @unknown <!here> <@U0000ANNA> <!subteam^S0000000002> :red_circle: Now CRITICAL") {
		t.Errorf("escalation: %s", text)
	}
	must.Equal(t, strings.Count(strings.Join(f.calls, " "), "usergroups.list"), 1, "look-ups")
}

// A group that escalates into the route of another channel is posted there, too. Both messages are kept up to date, also
// after a restart.
func TestEscalationToAnotherChannel(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Routes = []Route{{Match: []string{"severity=critical", `cause=~".+"`, "alertname=StageFailureRate"}, Channel: "#checkout", Mention: []string{"@channel"}}}
	store := &alertstest.Store{}
	n := newNotifier(t, cfg, store)
	notify(t, n, group(warning()))
	notify(t, n, escalated())
	wantLog(t, f, "C123 CRITICAL (edited)", "C456 <!channel> CRITICAL", "C123 reply CRITICAL")
	n = newNotifier(t, cfg, store)
	end := escalated()
	end.Alerts[1].State, end.Alerts[1].EndsAt = alerts.Resolved, t0.Add(time.Hour)
	again := warning() // a move back posts nothing new
	again.StartsAt, again.UpdatedAt = t0.Add(time.Hour), t0.Add(time.Hour)
	notify(t, n, group(append(end.Alerts, again)...))
	wantLog(t, f, "C123 WARNING (edited)", "C456 WARNING (edited)", "C123 reply CRITICAL", "C123 reply WARNING", "C456 reply WARNING")
}

// A group that was hidden while it belonged to one channel is posted only to the channel of its present state.
func TestRouteOfHiddenGroup(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Routes = []Route{{Match: []string{"severity=critical"}, Channel: "#checkout"}}
	n := newNotifier(t, cfg, &alertstest.Store{})
	hidden := warning()
	hidden.Inhibitor = &alerts.Inhibitor{Name: "ProviderOutage", Group: "ProviderOutage{}"}
	notify(t, n, group(hidden))
	wantLog(t, f)
	notify(t, n, escalated())
	wantLog(t, f, "C456 CRITICAL")
	end := escalated()
	end.Alerts[1].State, end.Alerts[1].EndsAt = alerts.Resolved, t0.Add(time.Hour)
	notify(t, n, end)
	if m := f.top(); len(m) != 1 || !strings.Contains(m[0].Text, "RESOLVED") {
		t.Errorf("messages: %+v", m)
	}
}

// A channel that rejects messages is replaced by the default channel; a rate limit holds only for its channel.
func TestRouteChannelFails(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Routes = []Route{{Match: []string{"severity=critical"}, Channel: "#checkout", Mention: []string{"@here"}}}
	f.archived = "#checkout"
	n := newNotifier(t, cfg, &alertstest.Store{})
	notify(t, n, group(incident()))
	wantLog(t, f, "C123 <!here> CRITICAL")
	notify(t, n, group(incident()))
	must.Equal(t, strings.Join(f.calls, " "), "chat.postMessage chat.postMessage chat.update", "calls")

	f, cfg2 := newSlack(t)
	cfg2.Routes = cfg.Routes
	n = newNotifier(t, cfg2, &alertstest.Store{})
	notify(t, n, group(warning()))
	f.answer = func(method string, _ int) (int, http.Header, string, bool) {
		if method == "chat.postMessage" {
			return 429, http.Header{"Retry-After": {"17"}}, "", false
		}
		return 0, nil, "", false
	}
	if err := n.Notify(t.Context(), escalated()); !retryable(err) {
		t.Fatalf("got %v", err)
	}
	f.answer = nil
	n.limited["chat.postMessage #checkout"] = time.Now()
	notify(t, n, escalated())
	wantLog(t, f, "C123 CRITICAL (edited)", "C456 <!here> CRITICAL", "C123 reply CRITICAL")
}

// A record of a version with one message per group.
func TestEarlierRecord(t *testing.T) {
	f, cfg := newSlack(t)
	store := &alertstest.Store{}
	n := newNotifier(t, cfg, store)
	notify(t, n, group(warning()))
	key := "slack." + alerts.GroupID(group(warning()).Key)
	old, err := store.Get(t.Context(), key)
	if err != nil || old == nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"target":"#alerts",`, `,"mentioned":2`} {
		if !strings.Contains(string(old), field) {
			t.Fatalf("no %s in %s", field, old)
		}
		old = []byte(strings.Replace(string(old), field, "", 1))
	}
	must.Do(t, store.Put(t.Context(), key, old))
	cfg.Mentions = map[string][]string{"warning": {"@here"}, "critical": {"@channel"}}
	n = newNotifier(t, cfg, store)
	notify(t, n, group(warning()))
	notify(t, n, escalated())
	wantLog(t, f, "C123 CRITICAL (edited)", "C123 reply <!channel> CRITICAL")
}

// The message of a hidden alert links to the message of the alert that hides it.
func TestPartOfLinks(t *testing.T) {
	f, cfg := newSlack(t)
	n := newNotifier(t, cfg, &alertstest.Store{})
	source := incident()
	source.Name = "ProviderOutage"
	outage := alerts.Group{Key: "ProviderOutage{}", Alerts: []alerts.Alert{source}}
	notify(t, n, group(warning()))
	notify(t, n, outage)
	part := warning()
	part.Inhibitor = &alerts.Inhibitor{ID: source.ID(), Group: outage.Key, Name: source.Name, Summary: "Calls of 10 services"}
	notify(t, n, group(part))
	notify(t, n, group(part))
	must.Equal(t, part.Inhibitor.URL, "", "the caller's alert is modified")
	text := plainBlocks(t, []byte(f.top()[0].Blocks))
	must.Contain(t, f.top()[0].Blocks, "https://acme.slack.com/archives/C123/p1700000000.000002|ProviderOutage", text)
	if got := f.thread(); len(got) != 1 || !strings.Contains(got[0].Text, "Part of <https://") {
		t.Errorf("thread: %+v", got)
	}
	must.Equal(t, strings.Count(strings.Join(f.calls, " "), "getPermalink"), 1, "look-ups")
}

func TestRoutesConfig(t *testing.T) {
	f := func(r Route, mentions map[string][]string, want string) {
		t.Helper()
		c := Default()
		c.Token, c.Channel, c.Routes, c.Mentions = "xoxb-1", "C1", []Route{r}, mentions
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	f(Route{Match: []string{"a=b"}, Channel: "#x", Mention: []string{"@here", "!channel", "U0123", "S0123", "@on-call"}}, map[string][]string{"critical": {"@here"}}, "")
	f(Route{Channel: "#x"}, nil, "routes[0].match: is empty; later routes would have no effect. Set the default in slack.channel")
	f(Route{Match: []string{"a=b"}}, nil, "routes[0]: has neither channel nor mention")
	f(Route{Match: []string{"a"}, Channel: "#x"}, nil, `routes[0].match[0]: "a" is not a matcher, such as service=checkout-agent or severity=~"warn.*"`)
	const forms = " is none of U0123456789 (a user), S0123456789 or @handle (a user group), @here and @channel"
	f(Route{Match: []string{"a=b"}, Mention: []string{"Anna"}}, map[string][]string{"critical": {"<!here>"}}, `routes[0].mention[0]: "Anna"`+forms+"\n"+`mentions.critical[0]: "<!here>"`+forms)
}

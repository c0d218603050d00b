package routing

import (
	"context"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/email"
	"github.com/llmtap/llmtap/alerts/pagerduty"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var pager = []pagerduty.Config{{RoutingKey: "k"}}

func TestValidate(t *testing.T) {
	for _, f := range []struct {
		c    Config
		want string // errors, separated by newlines
	}{
		{Config{}, ""},
		{Config{
			Configured: []Target{{Name: "a", PagerDuty: pager}},
			Routes:     []Route{{Matchers: []string{`severity="critical"`}, Receivers: []string{"a"}}, {Receivers: []string{"a"}}},
		}, ""},
		{Config{Configured: []Target{{}, {Name: "a", PagerDuty: pager}, {Name: "a", Webhook: []webhook.Config{{URL: "http://h"}}}}}, `receivers[0].name: is empty; routes name receivers
receivers[0]: has no pagerduty_configs, msteamsv2_configs, email_configs or webhook_configs
receivers[2].name: "a" is that of another receiver
receivers[2].webhook_configs[0].secret, secret_file: set one of them to a random key that the receiver knows
receivers[1]: no route names "a", so it would receive nothing
receivers[2]: no route names "a", so it would receive nothing`},
		{Config{Routes: []Route{{Matchers: []string{"severity"}}, {Receivers: []string{"b"}}}}, `routes[0].matchers: `},
		{Config{Routes: []Route{{Receivers: []string{"b"}}}}, `routes[0].receivers: "b" is not the name of an entry of routing.receivers`},
	} {
		text := ""
		if err := f.c.Validate(); err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, f.want) || (text == "") != (f.want == "") {
			t.Errorf("got\n%s\nwant\n%s", text, f.want)
		}
	}
}

// recorder records the states of groups.
type recorder struct{ got []string }

func (r *recorder) Notify(_ context.Context, g alerts.Group) error {
	a := g.Worst()
	r.got = append(r.got, a.Labels["severity"]+" "+string(a.State))
	return nil
}

func TestRoutes(t *testing.T) {
	c := Config{
		Configured: []Target{{Name: "pager", PagerDuty: pager}, {Name: "shop", Email: []email.Config{{To: "a@example.com", From: "b@example.com", Smarthost: "h:25"}}, PagerDuty: pager}},
		Routes: []Route{
			{Matchers: []string{`severity="critical"`}, Receivers: []string{"pager"}},
			{Matchers: []string{`service="shop"`, `root_cause="cut"`}, Receivers: []string{"shop", "pager"}},
		},
	}
	list := must.Get(c.Receivers(alerts.NotifierOptions{}))(t)
	var names []string
	recorders := make([]recorder, len(list))
	for i := range list {
		names = append(names, list[i].Destination)
		list[i].Notifier.(*routed).Notifier = &recorders[i]
	}
	must.Equal(t, strings.Join(names, "\n"), `pager pagerduty_configs[0]: events.pagerduty.com
shop pagerduty_configs[0]: events.pagerduty.com
shop email_configs[0]: a@example.com`, "receivers")

	alert := func(severity, service, root string, state alerts.State) alerts.Alert {
		a := alerts.Alert{Name: "Failures", State: state, Labels: map[string]string{"severity": severity, "service": service}}
		a.Evidence.Shares = []alerts.Share{{RootCause: root}}
		return a
	}
	notify := func(want string, group ...alerts.Alert) {
		t.Helper()
		var got []string
		for i := range list {
			recorders[i].got = nil
			must.Do(t, list[i].Notify(t.Context(), alerts.Group{Key: "g", Alerts: group}))
			got = append(got, strings.Join(recorders[i].got, ""))
		}
		must.Equal(t, strings.Join(got, " | "), want, "pager | shop's pager | shop's mail")
	}
	warning, critical := alert("warning", "search", "", alerts.Firing), alert("critical", "search", "", alerts.Firing)
	ended := alert("critical", "search", "", alerts.Resolved)
	notify(" |  | ", warning)
	notify("critical firing |  | ", warning, critical)
	notify("warning firing |  | ", warning, ended)
	notify("critical resolved |  | ", alert("warning", "search", "", alerts.Resolved), ended)
	notify(" |  | ", warning) // a new incident

	// The cause may change.
	notify("warning firing | warning firing | warning firing", alert("warning", "shop", "cut", alerts.Firing))
	notify("warning firing | warning firing | warning firing", alert("warning", "shop", "other", alerts.Firing))
	notify("warning resolved | warning resolved | warning resolved", alert("warning", "shop", "other", alerts.Resolved))
	notify(" |  | ", alert("warning", "shop", "other", alerts.Firing))

	// A test alert reaches all.
	for i := range list {
		if Unrouted(list[i].Notifier) != alerts.Notifier(&recorders[i]) {
			t.Error(list[i].Destination)
		}
	}
}

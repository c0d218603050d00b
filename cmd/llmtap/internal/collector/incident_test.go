package collector

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An incidentTest is an engine with all receivers.
type incidentTest struct {
	*testing.T
	*collectortest.Receivers
	slack     *slack.Server
	cfg       config.Config
	store     alertstest.Store
	decisions *engine.Decisions
	start     int64               // first second of stream time
	seen      map[string][]string // accepted requests by path
}

// open starts an engine on the receivers, with what an earlier one has stored.
func (x *incidentTest) open() (e *engine.Engine, stop func()) {
	x.Helper()
	c := engine.Default()
	c.UpdateInterval, c.RepeatInterval, c.RuleFiles = 0, 24*time.Hour, []string{"../../../../alerts/rules/stage_failure_rate.yaml"}
	var list []alerts.Notifier
	for _, r := range must.Get(Receivers(&x.cfg, alerts.NotifierOptions{Store: &x.store}))(x.T) {
		list = append(list, withName(dropWatchdog(r.Notifier), r.Kind))
	}
	e = enginetest.New(x.T, c, engine.Options{Notifiers: list, Store: &x.store, Decisions: x.decisions})
	return e, must.Run(x.T, e.Run)
}

// add adds the seconds [from, to) of an incident: of 16 calls a second, 2 fail in the first minute, all in the next two, and then none.
func (x *incidentTest) add(e *engine.Engine, from, to int64) {
	x.Helper()
	kv := map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": "2.4.0"}
	bad := maps.Clone(kv)
	maps.Copy(bad, map[string]string{"status": "400", "cause": "orphan_tool_reply", "root_cause": "tool_calls_dropped_on_save"})
	for i := from; i < to; i++ {
		tally := &analyzer.Tally{Second: x.start + i, Counts: []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv, N: 16}}}
		n := uint64(2)
		if i >= 60 {
			n = 16
		}
		if i < 180 {
			tally.Counts = append(tally.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: bad, N: n})
			tally.Examples = []analyzer.Example{{Labels: bad, Conversation: "order-7781", Status: 400, PublishedAt: tally.Second * 1e9, Fix: "Keep the tool_calls."}}
		}
		must.Do(x.T, e.Add(x.Context(), tally))
	}
}

// await waits until Teams and the mail server have accepted this many messages, the webhook has been sent hook, PagerDuty has this state, and
// Slack shows text.
func (x *incidentTest) await(messages int, hook, pagerduty, text string) {
	x.Helper()
	must.Wait(x.T, fmt.Sprint(messages, " messages, ", hook, ", ", pagerduty, ", ", text), func() bool {
		for line := range strings.SplitSeq(x.Requests(), "\n") {
			if path, what, ok := strings.Cut(strings.TrimPrefix(line, "POST "), " "); ok && !strings.HasSuffix(what, " refused") {
				x.seen[path] = append(x.seen[path], what)
			}
		}
		hooks, states, shown := x.seen["/hook"], x.pagerduty(), x.slack.Messages()
		return len(x.seen["/teams"]) >= messages && len(x.Mail.Mails()) >= messages && slices.Contains(hooks, hook+" StageFailureRate") &&
			(hook == "firing" || slices.Contains(x.seen["/critical"], hook+" StageFailureRate")) &&
			len(states) > 0 && states[len(states)-1] == pagerduty && len(shown) > 0 && strings.Contains(shown[0].Text, text)
	}, func() any {
		return fmt.Sprintf("%q\n%d mails\nPagerDuty: %q\nSlack: %+v", x.seen, len(x.Mail.Mails()), x.pagerduty(), x.slack.Messages())
	})
}

// pagerduty returns the changes of the alerts of PagerDuty.
func (x *incidentTest) pagerduty() (changes []string) {
	state := map[string]string{}
	for _, e := range x.seen["/v2/enqueue"] {
		e, page := strings.CutSuffix(e, " of the page")
		key := "warning"
		if page {
			key = "page"
		}
		was, action := state[key], strings.Fields(e)[0]
		open := was == "trigger" || was == "acknowledge"
		if action == "trigger" && !open || action == "acknowledge" && was == "trigger" || action == "resolve" && open {
			state[key] = action
			changes = append(changes, key+": "+e)
		}
	}
	return changes
}

// An incident of a running engine reaches every receiver: a warning, its acknowledgement, a page and the end, each once. In between, numbers
// change, the engine restarts, and Teams and the mail server refuse for a while.
func TestIncidentAtAllReceivers(t *testing.T) {
	t.Parallel()
	x := &incidentTest{
		T: t, Receivers: collectortest.StartReceivers(t), slack: slack.New(slack.Config{Channels: []string{"oncall"}}), decisions: engine.NewDecisions(),
		start: (time.Now().Unix() - 3600) / 5 * 5, seen: map[string][]string{},
	}
	workspace := httptest.NewServer(x.slack)
	t.Cleanup(workspace.Close)
	x.cfg = must.Get(config.Load(x.ConfigFile(t), func(string) string { return "" }))(t).Config
	x.cfg.Slack.APIURL, x.cfg.UI.ExternalURL = workspace.URL+"/api/", "https://llmtap.example.com"
	must.Do(t, x.decisions.Replace(nil))

	e, stop := x.open()
	x.add(e, 0, 60)
	x.await(1, "firing", "warning: trigger warning", "WARNING checkout-agent/planner")
	g := e.Groups()[0]
	ack := engine.StoredAck{Ack: alerts.Ack{Group: g.Key, Incident: g.Since(), By: "U1", ByName: "Anna", At: time.Now().UTC()}}
	must.Do(t, x.decisions.Put(engine.AckStoreKey(g.Key), must.Get(json.Marshal(ack))(t)))
	x.await(2, "firing", "warning: acknowledge", "WARNING checkout-agent/planner")
	stop()

	x.Break("/teams")
	x.Mail.Answer(func(verb, _ string) string {
		if verb == "MAIL" {
			return "451 4.3.0 busy"
		}
		return ""
	})
	e, stop = x.open()
	x.add(e, 0, 180)
	x.await(2, "firing", "page: acknowledge", "CRITICAL checkout-agent/planner")
	x.Break("")
	x.Mail.Answer(nil)
	x.await(3, "firing", "page: acknowledge", "CRITICAL checkout-agent/planner")
	x.add(e, 180, 1800)
	x.await(4, "resolved", "page: resolve", "RESOLVED checkout-agent/planner")
	stop()

	x.await(4, "resolved", "page: resolve", "RESOLVED checkout-agent/planner") // reads what came meanwhile
	must.Agree(t, cmp.Diff([]string{
		"warning: trigger warning", "warning: acknowledge", "page: trigger critical", "warning: resolve", "page: acknowledge", "page: resolve",
	}, x.pagerduty()), "PagerDuty")
	must.Equal(t, strings.Join(x.seen["/hook"], ", "), "firing StageFailureRate, firing StageFailureRate, resolved StageFailureRate", "webhook")
	must.Equal(t, strings.Join(x.seen["/critical"], ", "), "firing StageFailureRate, resolved StageFailureRate", "the webhook of the route")
	var cards, mails, threads []string
	for _, title := range x.seen["/teams"] {
		cards = append(cards, strings.Fields(title)[1])
	}
	for _, m := range x.Mail.Mails() {
		mails = append(mails, strings.Fields(m.Text)[1])
		threads = append(threads, m.Header.Get("In-Reply-To"))
	}
	states := "WARNING WARNING CRITICAL RESOLVED"
	must.Equal(t, strings.Join(cards, " ")+"; "+strings.Join(mails, " "), states+"; "+states, "cards and mails")
	must.Contain(t, x.Mail.Mails()[1].Text, "👀 Acknowledged by Anna")
	first := x.Mail.Mails()[0].Header.Get("Message-Id")
	must.Agree(t, cmp.Diff([]string{"", first, first, first}, threads), "In-Reply-To")
	top := 0
	for _, m := range x.slack.Messages() {
		if m.ThreadTS == "" {
			top++
		}
	}
	must.Equal(t, top, 1, "messages in Slack")
}

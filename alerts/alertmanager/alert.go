package alertmanager

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	maxShares = 5    // maximum number of causes in the annotation causes
	maxText   = 1000 // maximum length of an annotation, in characters
)

// An Alert is an alert in Alertmanager's API. Its labels identify it.
type Alert struct {
	Labels       map[string]string `json:"labels"` // alertname and the labels of the alert
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`                 // zero while firing
	GeneratorURL string            `json:"generatorURL,omitempty"` // web page about the problem, or else the alert

	id       string // severity and alerts.Alert.ID
	severity string
}

// Fingerprint returns the id by which Alertmanager identifies the alert: 16 hex digits, a hash of the labels.
func (a *Alert) Fingerprint() string { return fingerprint(a.Labels) }

func fingerprint(kv map[string]string) string {
	set := make(model.LabelSet, len(kv))
	for k, v := range kv {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint().String()
}

// Alerts returns the alerts of g, in order of first firing. If several alerts have the same labels, only the last one
// is returned, because the others ended before it began.
func Alerts(g alerts.Group, access alerts.Access) []Alert {
	var out []Alert
	at := map[string]int{}
	for i := range g.Alerts {
		a := &g.Alerts[i]
		x := Alert{
			Labels: labelsOf(a), Annotations: annotationsOf(a, access), GeneratorURL: wording.AlertURL(access.ExternalURL, &g, a),
			StartsAt: a.StartsAt.UTC(), EndsAt: a.EndsAt.UTC(), id: a.Severity() + " " + a.ID(), severity: a.Severity(),
		}
		f := x.Fingerprint()
		if j, ok := at[f]; ok {
			out[j] = x
			continue
		}
		at[f] = len(out)
		out = append(out, x)
	}
	return out
}

// labelsOf returns the labels of a for Alertmanager, without empty labels, which Alertmanager treats as missing.
func labelsOf(a *alerts.Alert) map[string]string {
	kv := maps.Clone(a.Matchable())
	if kv == nil {
		kv = map[string]string{}
	}
	kv[model.AlertNameLabel] = a.Name
	maps.DeleteFunc(kv, func(_, v string) bool { return v == "" })
	return kv
}

// annotationsOf returns the annotations of the rule, and the evidence as annotations. Evidence includes numbers,
// causes, versions, ids and the position of the defect, but neither the contents of messages nor the provider's text.
func annotationsOf(a *alerts.Alert, access alerts.Access) map[string]string {
	out := map[string]string{}
	for k, v := range a.Annotations {
		if !strings.HasPrefix(k, "llmtap_") { // only for the engine
			out[k] = wording.Truncate(v, maxText)
		}
	}
	add := func(k, v string) {
		if _, ok := out[k]; !ok && v != "" {
			out[k] = wording.Truncate(v, maxText)
		}
	}
	ev := &a.Evidence
	switch {
	case len(ev.Rules) > 0:
		add("calls", fmt.Sprintf("%d %s, in %d calls", ev.Failed, wording.Counted(ev, ev.Failed), ev.Calls))
	case ev.Calls > 0:
		add("calls", fmt.Sprintf("%d of %d failed", ev.Failed, ev.Calls))
	}
	if !ev.LastFailed.IsZero() {
		add("last_failure", ev.LastFailed.UTC().Format(time.RFC3339))
		add("calls_since", strconv.FormatUint(ev.CallsSince, 10))
	}
	if len(ev.Shares) > 0 {
		add("cause", wording.Truncate(ev.Shares[0].Cause, wording.MaxID))
		add("root_cause", wording.Truncate(ev.Shares[0].RootCause, wording.MaxID))
	}
	var causes []string
	for i, s := range ev.Shares {
		if i == maxShares {
			causes = append(causes, fmt.Sprintf("%d more", len(ev.Shares)-maxShares))
			break
		}
		text, id := wording.Why(ev, i), s.ID()
		if id != "" && text != id {
			text += " (" + id + ")"
		}
		causes = append(causes, fmt.Sprintf("%d: %s", s.Failed, wording.Truncate(text, wording.MaxID)))
		add("fix", s.Fix)
	}
	add("causes", strings.Join(causes, "; "))
	var versions []string
	for _, v := range ev.Versions {
		switch {
		case v.Version == "":
		case v.Failed == 0:
			versions = append(versions, fmt.Sprintf("none in %s (%d calls)", v.Version, v.Calls))
		default:
			versions = append(versions, fmt.Sprintf("%s: %d in %d calls", v.Version, v.Failed, v.Calls))
		}
	}
	add("versions", strings.Join(versions, "; "))
	if ev.Failed > 0 && !ev.ProviderChanged() {
		first, clean := ev.Regression()
		add("first_version", first)
		add("last_clean_version", clean)
	}
	if x := ev.Example; x != nil {
		add("conversation", wording.Truncate(x.Conversation, wording.MaxID))
		add("conversation_url", wording.ConversationURL(access.ExternalURL, x.Conversation))
		add("exchange", wording.Truncate(x.Exchange, wording.MaxID))
		add("rule", wording.Truncate(x.Rule, wording.MaxID))
		if x.Message >= 0 && x.Rule != "" {
			add("message_index", strconv.Itoa(x.Message))
		}
		add("tool", wording.Truncate(x.ToolName, wording.MaxID))
		add("tool_call_id", wording.Truncate(x.ToolCallID, wording.MaxID))
		add("example", x.Summary)
		add("fix", x.Fix)
	}
	if commands := wording.Commands(access, a); len(commands) > 0 {
		if access.Host != "" {
			add("commands_host", access.Host)
		}
		add("commands", strings.Join(commands, "\n"))
	}
	if a.FoundLate {
		add("found_late", "llmtap evaluated this period more than a minute late")
	}
	add("unavailable", a.Unavailable)
	return out
}

package alertmanager

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
)

const (
	maxShares = 5    // causes that are named
	maxText   = 1000 // characters of an annotation
	maxID     = 200  // characters of an id that is told
)

// An Alert is one alert in Alertmanager's words; in its API the labels alone are its identity.
type Alert struct {
	Labels       map[string]string `json:"labels"` // alertname and the alert's own
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // zero while it fires
	GeneratorURL string            `json:"generatorURL,omitempty"`

	id string // alerts.Alert.ID
}

// Fingerprint is Alertmanager's own: 16 hex digits of the labels.
func (a *Alert) Fingerprint() string { return fingerprint(a.Labels) }

func fingerprint(kv map[string]string) string {
	set := make(model.LabelSet, len(kv))
	for k, v := range kv {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint().String()
}

// Alerts are those of g, in order of first firing. Of several with the same labels only the last is there: the others
// ended before it began. Links go to base if it is not empty.
func Alerts(g alerts.Group, base string) []Alert {
	var out []Alert
	at := map[string]int{}
	for i := range g.Alerts {
		a := &g.Alerts[i]
		x := Alert{
			Labels: labelsOf(a), Annotations: annotationsOf(a), GeneratorURL: link(a, base),
			StartsAt: a.StartsAt.UTC(), EndsAt: a.EndsAt.UTC(), id: a.ID(),
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

// labelsOf leaves out empty labels, which Alertmanager takes for absent ones.
func labelsOf(a *alerts.Alert) map[string]string {
	kv := maps.Clone(a.Labels)
	if kv == nil {
		kv = map[string]string{}
	}
	kv[model.AlertNameLabel] = a.Name
	maps.DeleteFunc(kv, func(_, v string) bool { return v == "" })
	return kv
}

// annotationsOf are the rule's, and what the tallies know: numbers, causes, versions and ids, no content of messages.
func annotationsOf(a *alerts.Alert) map[string]string {
	out := map[string]string{}
	for k, v := range a.Annotations {
		if !strings.HasPrefix(k, "llmtap_") { // for the engine
			out[k] = cut(v, maxText)
		}
	}
	add := func(k, v string) {
		if _, ok := out[k]; !ok && v != "" {
			out[k] = cut(v, maxText)
		}
	}
	ev := &a.Evidence
	if ev.Calls > 0 {
		add("calls", fmt.Sprintf("%d of %d failed", ev.Failed, ev.Calls))
	}
	var causes []string
	for i, s := range ev.Shares {
		if i == maxShares {
			causes = append(causes, fmt.Sprintf("%d more", len(ev.Shares)-maxShares))
			break
		}
		words, id := s.Description(), s.ID()
		if id != "" && words != id {
			words += " (" + id + ")"
		}
		causes = append(causes, fmt.Sprintf("%d: %s", s.Failed, cut(words, maxID)))
		add("fix", s.Fix)
	}
	add("causes", strings.Join(causes, "; "))
	if ev.Failed > 0 {
		first, clean := ev.Regression()
		add("first_version", first)
		add("last_clean_version", clean)
	}
	if x := ev.Example; x != nil {
		add("conversation", cut(x.Conversation, maxID))
		add("exchange", cut(x.Exchange, maxID))
		add("fix", x.Fix)
	}
	if a.FoundLate {
		add("found_late", "it began before llmtap could evaluate it")
	}
	add("unavailable", a.Unavailable)
	return out
}

// link is the page of the example's conversation, or that of llmtap.
func link(a *alerts.Alert, base string) string {
	if base == "" {
		return ""
	}
	base = strings.TrimRight(base, "/")
	if x := a.Evidence.Example; x != nil && x.Conversation != "" && len(x.Conversation) <= maxID {
		return base + "/conversation/" + url.PathEscape(x.Conversation)
	}
	return base + "/"
}

// cut shortens text to n characters, the last of them an ellipsis.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

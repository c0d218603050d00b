package webhook

import (
	"maps"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
)

// A Message is the body of a post, in the format of Alertmanager's webhook receiver.
type Message struct {
	Receiver          string            `json:"receiver"` // always llmtap
	Status            string            `json:"status"`   // firing while any alert fires, otherwise resolved
	Alerts            []Alert           `json:"alerts"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Version           string            `json:"version"`         // always 4
	GroupKey          string            `json:"groupKey"`        // the same for all posts of a group
	TruncatedAlerts   uint64            `json:"truncatedAlerts"` // always 0, because a group has at most 20 alerts
}

// An Alert is one alert of a Message.
type Alert struct {
	Status       string            `json:"status"` // firing or resolved
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`       // 0001-01-01T00:00:00Z while firing
	GeneratorURL string            `json:"generatorURL"` // web page about the alert; empty without ui.external_url
	Fingerprint  string            `json:"fingerprint"`  // Alertmanager's fingerprint of the labels
}

// newMessage returns the message for g. It depends only on the state of g and the other arguments.
func newMessage(g alerts.Group, groupBy []string, access alerts.Access) *Message {
	m := &Message{
		Receiver: "llmtap", Version: "4", Status: string(alerts.Resolved), GroupKey: g.Key, Alerts: []Alert{},
		ExternalURL: strings.TrimRight(access.ExternalURL, "/"),
		GroupLabels: map[string]string{}, CommonLabels: map[string]string{}, CommonAnnotations: map[string]string{},
	}
	if g.Firing() {
		m.Status = string(alerts.Firing)
	}
	for i, a := range alertmanager.Alerts(g, access) {
		status := alerts.Resolved
		if a.EndsAt.IsZero() {
			status = alerts.Firing
		}
		m.Alerts = append(m.Alerts, Alert{
			Status: string(status), Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt, EndsAt: a.EndsAt,
			GeneratorURL: a.GeneratorURL, Fingerprint: a.Fingerprint(),
		})
		if i == 0 {
			maps.Copy(m.CommonLabels, a.Labels)
			maps.Copy(m.CommonAnnotations, a.Annotations)
			continue
		}
		common(m.CommonLabels, a.Labels)
		common(m.CommonAnnotations, a.Annotations)
	}
	for _, name := range append([]string{"alertname"}, groupBy...) {
		if v, ok := m.CommonLabels[name]; ok {
			m.GroupLabels[name] = v
		}
	}
	return m
}

// common deletes the entries of kv that other does not contain.
func common(kv, other map[string]string) {
	maps.DeleteFunc(kv, func(k, v string) bool {
		o, ok := other[k]
		return !ok || o != v
	})
}

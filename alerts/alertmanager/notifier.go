package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/sent"
)

const (
	// resend is the default of Prometheus's --rules.alert.resend-delay.
	resend = time.Minute
	// validity is the time for which Alertmanager keeps an alert that is not sent again. Prometheus uses the same
	// factor.
	validity = 4 * resend
)

// A Notifier sends alerts to one Alertmanager. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	url, token string
	access     alerts.Access
	client     *http.Client

	mu      sync.Mutex // guards records and serializes calls
	records *sent.Set[known]
}

// known contains the alerts of one group that Alertmanager has accepted, by severity and alert id.
type known map[string]accepted

// accepted is the state of one alert that Alertmanager has accepted as firing.
type accepted struct {
	Until time.Time `json:"until"` // Alertmanager keeps the alert at least until then; at or after the first endsAt sent by this process
	Ended bool      `json:"ended"` // the alert had already ended when it was sent
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Every: resend, Muted: true} }

// Notify sends the state of g.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, _ := n.records.Load(ctx, g.Key)
	list, after := plan(g, n.access, before, time.Now().UTC())
	if len(list) == 0 {
		return nil
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode alerts: %w", err)
	}
	req, err := n.request(ctx, http.MethodPost, n.url, string(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := endpoint.Call(n.client, req, nil); err != nil {
		retry, ok := errors.AsType[*alerts.RetryError](err)
		if ok && !g.Firing() && expired(after, time.Now()) {
			return fmt.Errorf("post the end of %s to alertmanager, where it has expired meanwhile: %w", g.Key, retry.Err)
		}
		return fmt.Errorf("post to alertmanager: %w", err)
	}
	if sameAlerts(before, after) {
		n.records.Keep(g.Key, after)
	} else {
		n.records.Save(ctx, g.Key, after)
	}
	return nil
}

// plan returns the alerts to send for g at now, and the alerts that Alertmanager knows once it has accepted them.
func plan(g alerts.Group, access alerts.Access, before known, now time.Time) ([]Alert, known) {
	current := map[string]bool{} // fingerprints of alerts that are not inhibited by a higher severity
	for _, a := range g.Current() {
		current[fingerprint(labelsOf(&a))] = true
	}
	until := now.Add(validity)
	after := known{}
	var list []Alert
	for _, a := range Alerts(g, access) {
		k, sent := before[a.id]
		switch {
		case a.EndsAt.IsZero():
			a.EndsAt = until
			if until.Before(a.StartsAt) { // the clocks differ; Alertmanager would reject an alert that ends before it starts
				a.EndsAt = a.StartsAt.Add(validity)
			}
			k = accepted{Until: until}
		case sent && !k.Ended: // Alertmanager resolves it
		case sent, current[a.Fingerprint()]:
			if !sent {
				k = accepted{Until: until, Ended: true}
			}
			a.Annotations["ended_at"] = a.EndsAt.Format(time.RFC3339)
			a.EndsAt = k.Until
		default: // the firing alert on the same series is enough
			continue
		}
		// For Alertmanager, an alert that escalates ends, and another one begins.
		_, id, _ := strings.Cut(a.id, " ")
		for was, b := range before {
			severity, wasID, _ := strings.Cut(was, " ")
			if b.Ended || wasID != id || severity == a.severity {
				continue
			}
			ended := a
			ended.Labels = maps.Clone(a.Labels)
			ended.Labels["severity"], ended.EndsAt = severity, now
			list = append(list, ended)
		}
		after[a.id] = k
		list = append(list, a)
	}
	return list, after
}

// expired reports whether Alertmanager no longer has any alert of k.
func expired(k known, now time.Time) bool {
	for _, a := range k {
		if !now.After(a.Until) {
			return false
		}
	}
	return true
}

// sameAlerts reports whether before and after are equivalent after a restart.
func sameAlerts(before, after known) bool {
	if len(before) != len(after) {
		return false
	}
	for id, a := range after {
		if b, ok := before[id]; !ok || b.Ended != a.Ended {
			return false
		}
	}
	return true
}

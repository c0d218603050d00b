// Package heartbeat requests a URL every minute while the alert rule Watchdog is evaluated and fires, so that an
// external system notices when alerts no longer work. A heartbeat shows that a process leads, that its engine
// evaluates, and that it delivers.
package heartbeat

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
)

const (
	// watchdog is the alert rule that always fires.
	watchdog = "Watchdog"
	interval = time.Minute
	// maxAge is the time without an evaluation of the Watchdog after which the engine counts as stalled.
	maxAge = 2 * time.Minute
)

// A Notifier sends heartbeats by requesting one URL.
type Notifier struct {
	url     string
	client  *http.Client
	started time.Time // when the process started, began to lead, or continued after a pause
	called  time.Time // last call of Notify
}

var _ alerts.Paced = (*Notifier)(nil)

// New returns a Notifier for a URL. If client is nil, alerts.NewClient is used.
func New(url string, client *http.Client) *Notifier {
	if client == nil {
		client = alerts.NewClient()
	}
	return &Notifier{url: url, client: client, started: time.Now(), called: time.Now()}
}

// Receiver returns the receiver that sends heartbeats to a URL.
func Receiver(url string) alerts.Receiver {
	return alerts.Receiver{
		Notifier: New(url, nil), Destination: endpoint.Host(url), System: true, Check: endpoint.CheckReachable("alerts.heartbeat_url", url),
	}
}

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace {
	return alerts.Pace{Every: interval, NewsOnly: true, Muted: true}
}

// Notify requests the URL if the Watchdog of g fires and was evaluated recently. After a restart, or if the machine was
// suspended, g is as old as the outage: until the first evaluation, there is neither a heartbeat nor an error.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	now := time.Now()
	if now.Sub(n.called) > maxAge {
		n.started = now
	}
	n.called = now
	for _, a := range g.Alerts {
		if a.Name != watchdog || a.State != alerts.Firing {
			continue
		}
		since := a.UpdatedAt
		if since.Before(n.started) {
			since = n.started
		}
		if age := now.Sub(since); age > maxAge {
			return &alerts.RetryError{Err: fmt.Errorf("send heartbeat: no evaluation of the rules for %v", age.Round(time.Second))}
		}
		if n.started.Sub(a.UpdatedAt) > interval {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url, nil)
		if err != nil {
			return fmt.Errorf("prepare heartbeat: %w", err)
		}
		if err := endpoint.Call(n.client, req, nil); err != nil {
			return fmt.Errorf("send heartbeat: %w", err)
		}
	}
	return nil
}

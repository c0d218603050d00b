package alerts

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// watchdog is the alert rule that always fires.
	watchdog = "Watchdog"
	// heartbeatEvery is the pace at which the URL is fetched.
	heartbeatEvery = time.Minute
	// maxEvaluationAge is how old the last evaluation of the Watchdog may be for the heart to beat.
	maxEvaluationAge = 2 * time.Minute
)

// A Heartbeat fetches a URL each minute while the Watchdog fires and is evaluated, so that a system outside can tell when
// no alert would come. It shows that a process leads, that its engine evaluates, and that it delivers.
type Heartbeat struct {
	url    string
	client *http.Client
}

var _ Paced = (*Heartbeat)(nil)

// NewHeartbeat returns the Heartbeat of a URL, see CheckURL. A nil client is NewClient's.
func NewHeartbeat(url string, client *http.Client) *Heartbeat {
	if client == nil {
		client = NewClient()
	}
	return &Heartbeat{url: url, client: client}
}

// Pace implements Paced.
func (h *Heartbeat) Pace() Pace { return Pace{Every: heartbeatEvery, NewsOnly: true} }

// Notify fetches the URL if g holds the Watchdog. A stalled engine still says that it fires; its age tells.
func (h *Heartbeat) Notify(ctx context.Context, g Group) error {
	for i := range g.Alerts {
		a := &g.Alerts[i]
		if a.Name != watchdog || a.State != Firing {
			continue
		}
		if age := time.Since(a.UpdatedAt); age > maxEvaluationAge {
			return &RetryError{Err: fmt.Errorf("send heartbeat: the rules were last evaluated %v ago", age.Round(time.Second))}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
		if err != nil {
			return fmt.Errorf("prepare heartbeat: %w", err)
		}
		if err := Call(h.client, req); err != nil {
			return fmt.Errorf("send heartbeat: %w", err)
		}
		return nil
	}
	return nil
}

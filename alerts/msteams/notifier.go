package msteams

import (
	"context"
	"fmt"
	"net/http"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/thread"
)

// A Notifier posts alert groups through one workflow. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	url     string
	client  *http.Client
	threads *thread.Threads
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace { return thread.Pace }

// Notify posts the state of g, unless people know it.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	return n.threads.Notify(ctx, g, func(ctx context.Context, m *thread.Message) error {
		if err := endpoint.Post(ctx, n.client, n.url, newPost(m)); err != nil {
			return fmt.Errorf("post to Teams: %w", err)
		}
		return nil
	})
}

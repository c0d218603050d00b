package email

import (
	"context"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/thread"
)

// A Notifier sends alert groups to the same recipients. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	from    *mail.Address
	to      []*mail.Address
	headers map[string]string
	server  *server
	threads *thread.Threads
	log     *slog.Logger
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace { return thread.Pace }

// Notify sends the state of g, unless people know it. Recipients that the server rejects are logged, if it accepts others.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	return n.threads.Notify(ctx, g, func(ctx context.Context, m *thread.Message) error {
		body, err := n.compose(m, time.Now())
		if err != nil {
			return fmt.Errorf("write mail: %w", err)
		}
		rejected, err := n.server.send(ctx, n.from.Address, addresses(n.to), body)
		if err != nil {
			return err
		}
		for _, err := range rejected {
			n.log.ErrorContext(ctx, "the mail server rejects a recipient of alerts; correct email.to", "error", err)
		}
		return nil
	})
}

func addresses(list []*mail.Address) (out []string) {
	for _, a := range list {
		out = append(out, a.Address)
	}
	return out
}

// destination returns the addresses of the recipients.
func (n *Notifier) destination() string { return strings.Join(addresses(n.to), ", ") }

// domain returns what follows the @ of the sender.
func (n *Notifier) domain() string {
	return n.from.Address[strings.LastIndexByte(n.from.Address, '@')+1:]
}

package slack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/sent"
)

// A Notifier sends alert groups to Slack channels. It is safe for concurrent use; calls are serialized.
type Notifier struct {
	channel  string // of groups that no route matches
	routes   []route
	mentions map[string][]string // by severity
	access   alerts.Access
	groupBy  []string
	problem  func(key string) (alerts.Problem, bool) // NotifierOptions.Problem
	allowed  []string                                // Config.Allowed
	content  bool                                    // Config.Content
	appToken bool                                    // an app-level token is configured
	socket   *socket                                 // nil: messages have no buttons

	turn chan struct{} // of 1; holds a value during a call of Notify or Fold, which has the rest for itself
	poster
	records   *sent.Set[*record]
	summaries summaries
	refused   map[string]time.Time // last time at which the channel of a route rejected a message
}

var (
	_ alerts.Paced  = (*Notifier)(nil)
	_ alerts.Folder = (*Notifier)(nil)
)

// Pace implements alerts.Paced. Slack accepts about 50 edits per minute across all messages, and some of them are
// needed for news.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Numbers: 1500 * time.Millisecond} }

// Notify posts the first state of g and edits the message for later states. It also posts news to the thread. If a later
// state is routed to another channel, it is posted there, too; all messages of the group are then kept up to date.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	if err := n.await(ctx); err != nil {
		return err
	}
	defer n.done()
	return n.later(n.notify(ctx, g))
}

// Fold implements alerts.Folder, see fold.
func (n *Notifier) Fold(ctx context.Context, groups []alerts.Group) []error {
	if err := n.await(ctx); err != nil {
		return slices.Repeat([]error{err}, len(groups))
	}
	defer n.done()
	return n.fold(ctx, groups)
}

// await waits until no other call is in progress. done ends the call.
func (n *Notifier) await(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		n.down = nil
		return nil
	case <-ctx.Done():
		return &alerts.RetryError{Err: fmt.Errorf("wait for the previous notification: %w", ctx.Err())}
	}
}

func (n *Notifier) done() { <-n.turn }

func (n *Notifier) notify(ctx context.Context, g alerts.Group) error {
	g = g.WithProblem(n.problem)
	to := n.route(g)
	if p := g.Known; p != nil && userID.MatchString(p.Assignee) && !slices.Contains(to.mention, p.Assignee) {
		to.mention = append(to.mention, p.Assignee)
	}
	if done, err := n.notifySummary(ctx, g, to); done {
		return err
	}
	r, ok := n.records.Load(ctx, g.Key)
	if !ok || g.Since().After(r.UpdatedAt) { // no message, or the message of an earlier incident
		r = &record{NoticeID: noticeID(g), notice: newNotice(to.channel), UpdatedAt: g.Updated()}
		n.records.Keep(g.Key, r)
	}
	r.Target = cmp.Or(r.Target, n.channel) // of an earlier version
	if g.Firing() && !g.Muted() {
		r.add(to.channel)
	} else if r.at(to.channel) == nil {
		to.channel = r.Target
	}
	g = n.shown(n.linked(ctx, g))
	err := n.showAll(ctx, g, r, to)
	if err != nil {
		if len(r.Further) > 0 {
			n.records.Save(ctx, g.Key, r)
		}
		return err
	}
	for _, p := range r.notices() {
		p.reminded = false
	}
	r.UpdatedAt = g.Updated()
	n.records.Save(ctx, g.Key, r)
	return nil
}

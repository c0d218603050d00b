package alerts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// A Folder is a Notifier for people that can notify them of many groups in one message, so that a storm of alerts is not a storm of
// messages.
type Folder interface {
	Notifier
	// Fold is called with all groups that are due, those of the highest severity first, if people have not been notified of them yet
	// or if their last notification was a summary. It returns one result per group: nil if people were notified of it in a
	// summary, ErrNotFolded if they were not, or another error as of Notify. Notify is called for one of the groups that were not
	// folded, the first; the others are passed to Fold again.
	Fold(ctx context.Context, groups []Group) []error
}

// ErrNotFolded is the result of Folder.Fold for a group that needs a notification of its own.
var ErrNotFolded = errors.New("not part of a summary")

// foldable reports whether the next notification may be part of a summary.
func (d *delivery) foldable() bool { return d.to.folder != nil && (d.version == 0 || d.folded) }

// foldTogether returns the notifications for receiver i that may be part of a summary: first notifications that are due, and all changes
// of groups that were part of a summary, whether due or not, because the summary is sent anyway. A reminder is of the whole
// summary.
func (d *dispatcher) foldTogether(i int, now time.Time) []*notification {
	r := d.receivers[i]
	var list, reminders []*notification
	remind := false
	for _, o := range d.groups.sorted() {
		s := &o.sent[i]
		if o.stored < o.news || !s.foldable() || s.notBefore.After(now.Add(turnGrace)) {
			continue
		}
		at, _, reminder, ok := o.due(i, r, d.cfg)
		if !ok || s.version == 0 && at.After(now.Add(turnGrace)) {
			continue
		}
		n := o.notification(i, reminder)
		n.foldable, n.since, n.attempts = true, s.since(at, now), s.attempts
		if !reminder {
			list = append(list, n)
			continue
		}
		reminders = append(reminders, n)
		remind = remind || !at.After(now)
	}
	if remind {
		list = append(list, reminders...)
	}
	slices.SortStableFunc(list, func(a, b *notification) int {
		if r.faults.down && a.attempts != b.attempts {
			return cmp.Compare(a.attempts, b.attempts) // as in due
		}
		x, y := a.group.Worst(), b.group.Worst()
		return cmp.Or(cmp.Compare(y.Rank(), x.Rank()), a.since.Compare(b.since))
	})
	return list
}

// fold passes list to f. It returns the notifications that f has folded and their results. If there are none, it returns list with
// the notification first that must be sent alone, and no results.
func fold(ctx context.Context, f Folder, list []*notification) (folded []*notification, results []error) {
	groups := make([]Group, len(list))
	for i, n := range list {
		groups[i] = n.group
	}
	var single []*notification
	for i, err := range f.Fold(ctx, groups) {
		if errors.Is(err, ErrNotFolded) {
			single = append(single, list[i])
			continue
		}
		list[i].folded = true
		folded, results = append(folded, list[i]), append(results, err)
	}
	if len(folded) == 0 {
		return single, nil
	}
	return folded, results
}

// folded reports whether a summary was the last notification of g to people.
func (g *openGroup) folded() bool {
	return slices.ContainsFunc(g.sent, func(d delivery) bool { return d.folded })
}

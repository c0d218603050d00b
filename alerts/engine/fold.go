package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

// foldable reports whether the next notification may be part of a summary.
func (d *delivery) foldable() bool { return d.to.folder != nil && (d.version == 0 || d.folded) }

// offers reports whether d is passed to Folder.Fold when it is due. A group that was not folded is only passed together with
// others: it may be one of many by then, as it waits for a rate limit.
func (d *delivery) offers() bool { return d.foldable() && !d.alone }

// foldTogether returns the notifications for receiver i that may be part of a summary: first notifications that are due, and all changes
// of groups that were part of a summary, whether due or not, because the summary is sent anyway. A reminder is of the whole
// summary.
func (d *dispatcher) foldTogether(i int, now time.Time) []*notification {
	r := d.receivers[i]
	var list, reminders []*notification
	remind := false
	for _, o := range d.groups.sorted() {
		s := &o.sent[i]
		if o.stored < o.news || !s.foldable() || !s.alone && s.notBefore.After(now.Add(turnGrace)) {
			continue
		}
		at, _, reminder, ok := o.due(i, r, d.cfg)
		if !ok {
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

// fold passes list to f and returns the results, and whether f has sent, or tried to send, a summary.
func fold(ctx context.Context, f alerts.Folder, list []*notification) (results []error, sent bool) {
	groups := make([]alerts.Group, len(list))
	for i, n := range list {
		groups[i] = n.group
	}
	results = f.Fold(ctx, groups)
	for i, err := range results {
		list[i].folded = !errors.Is(err, alerts.ErrNotFolded) && !errors.Is(err, alerts.ErrFoldLater)
		sent = sent || list[i].folded
	}
	return results, sent
}

// folded reports whether a summary was the last notification of g to people.
func (g *openGroup) folded() bool {
	return slices.ContainsFunc(g.sent, func(d delivery) bool { return d.folded })
}

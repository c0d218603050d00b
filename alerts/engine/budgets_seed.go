package engine

import (
	"context"
	"slices"
	"time"
)

// seedAfter is the time after which the store of calls is asked for the calls before the first step. The last of them may not be stored
// earlier.
const seedAfter = time.Minute

// Spent is what the measured calls of an hour cost.
type Spent struct {
	Hour                 time.Time
	Service, Environment string
	Microdollars         uint64
	Unpriced             uint64 // calls without a known price
}

// seedBudgets adds what calls cost before a budget was new, as far as the store of calls knows it, so that a new budget knows the month
// and the week before. It asks again until the store answers.
func (s *state) seedBudgets(ctx context.Context, spent func(ctx context.Context, from, to time.Time) ([]Spent, error)) {
	if spent == nil || s.budgets == nil || len(s.budgets.list) == 0 {
		return
	}
	for {
		s.mu.Lock()
		since, ok := s.budgets.unseeded()
		s.mu.Unlock()
		if ok && time.Since(time.Unix(since, 0)) >= seedAfter {
			month, _ := monthOf(since)
			from := time.Unix(min(month, since/3600*3600-week*3600), 0).UTC()
			list, err := spent(ctx, from, time.Unix(since, 0).UTC())
			if err == nil {
				s.mu.Lock()
				s.budgets.seed(since, from, list)
				s.mu.Unlock()
				continue
			}
			s.m.failed(s.log, "budgets", err)
		}
		if !newSignal().wait(ctx, seedAfter) {
			return
		}
	}
}

// unseeded returns the second since which a new budget knows its spend; false if there is no new budget.
func (b *budgets) unseeded() (since int64, ok bool) {
	i := slices.IndexFunc(b.list, func(s *spend) bool { return s.Month > 0 && !s.Seeded })
	if i < 0 {
		return 0, false
	}
	return b.list[i].New, true
}

// seed adds list, the spend from a time on, to the budgets that are new since a second.
func (b *budgets) seed(since int64, from time.Time, list []Spent) {
	first := since/3600 + 1 // hour since which all is known
	for _, x := range list {
		first = min(first, x.Hour.Unix()/3600)
	}
	if first > from.Unix()/3600 && len(list) > 0 {
		first++ // llmtap began within that hour
	}
	for _, s := range b.list {
		if s.Month == 0 || s.Seeded || s.New != since {
			continue
		}
		s.Seeded, s.First = true, min(s.First, first)
		if month, _ := monthOf(since); month == s.Month && len(list) > 0 {
			s.Since = max(s.Month, min(s.Since, 3600*first))
		}
		for _, x := range list {
			if s.budget.covers(x.Service, x.Environment) {
				s.add(x)
			}
		}
		s.estimate()
	}
	b.stored = 0
}

// add adds the spend of an hour that is not after the open one.
func (s *spend) add(x Spent) {
	if x.Hour.Unix() >= s.Month {
		s.Spent, s.Unpriced = s.Spent+x.Microdollars, s.Unpriced+x.Unpriced
	}
	switch hour := x.Hour.Unix() / 3600; {
	case hour == s.Hour:
		s.Open += x.Microdollars
	case hour >= s.Hour-week:
		s.Hours[hour%week] += x.Microdollars
	}
}

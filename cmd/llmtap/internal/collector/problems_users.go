package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// usersKey is the prefix of the keys of the users that problems have hit.
	usersKey = "users."
	// usersInterval is the interval at which the leader stores them, and ends what was to be ignored until they are more.
	usersInterval = 5 * time.Second
	// maxHits bounds what users were hit by, in memory. Beyond it, only what belongs to a problem is remembered.
	maxHits = 2 * maxProblems
)

// storedUsers are the users of a problem, as stored.
type storedUsers struct {
	Users alerts.Users `json:"users"`
}

// usersHit are the users that tallies count, in this process. problems.mu guards it.
//
//	tallies ──hit──> usersHit ── saveUsers, of the leader ──> bucket ── enough? ──> the silence ends
type usersHit struct {
	users   map[analyzer.Hit]alerts.Users
	unsaved map[analyzer.Hit]bool
}

// hit remembers the users that t counts. What is not stored when the process dies is read again from the tallies, and counting a
// user twice has no effect.
func (p *problems) hit(t *analyzer.Tally) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range t.Users {
		if len(p.users) >= maxHits {
			p.forgetUsers()
		}
		users := p.users[u.Hit]
		if users == nil && len(p.users) >= maxHits {
			continue
		}
		for _, b := range u.Buckets {
			if users.Add(b) {
				p.unsaved[u.Hit] = true
			}
		}
		p.users[u.Hit] = users
	}
}

// forgetUsers forgets the users of what is no problem.
func (p *problems) forgetUsers() {
	known := p.byHit()
	for h := range p.users {
		if len(problemsOf(known, h)) == 0 {
			delete(p.users, h)
			delete(p.unsaved, h)
		}
	}
}

// byHit returns the problems by what hits their users; p.mu is held.
func (p *problems) byHit() map[analyzer.Hit][]alerts.Problem {
	out := map[analyzer.Hit][]alerts.Problem{}
	for _, v := range p.list {
		out[hitOf(&v)] = append(out[hitOf(&v)], v)
	}
	return out
}

// hitOf returns what hits the users of v. Its environment and stage are empty if the alerts of v are about any.
func hitOf(v *alerts.Problem) analyzer.Hit {
	return analyzer.Hit{Service: v.Service, Environment: v.Environment, Stage: v.Stage, Problem: v.Cause}
}

// problemsOf returns those of the problems known that h belongs to.
func problemsOf(known map[analyzer.Hit][]alerts.Problem, h analyzer.Hit) (out []alerts.Problem) {
	seen := map[analyzer.Hit]bool{}
	for _, environment := range []string{h.Environment, ""} {
		for _, stage := range []string{h.Stage, ""} {
			if wide := (analyzer.Hit{Service: h.Service, Environment: environment, Stage: stage, Problem: h.Problem}); !seen[wide] {
				seen[wide] = true
				out = append(out, known[wide]...)
			}
		}
	}
	return out
}

// countUsers adds the users of v that this process knows to the stored ones, and returns their number.
func (p *problems) countUsers(ctx context.Context, v *alerts.Problem) (int, error) {
	var users alerts.Users
	p.mu.Lock()
	of := map[analyzer.Hit][]alerts.Problem{hitOf(v): {*v}}
	for h, u := range p.users {
		if len(problemsOf(of, h)) > 0 {
			users.Merge(u)
		}
	}
	p.mu.Unlock()
	_, stored, err := change(ctx, p.kv, usersKey+v.ID(), func(s *storedUsers, _ bool) (bool, error) { return s.Users.Merge(users), nil })
	if err != nil {
		return 0, fmt.Errorf("count the users of a problem: %w", err)
	}
	return stored.Users.Count(), nil
}

// followUsers stores the users of problems until ctx ends, and ends what was to be ignored until they are more.
func (p *problems) followUsers(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, usersInterval) {
		if err := p.saveUsers(ctx); err != nil && ctx.Err() == nil {
			p.logger.Warn("users of problems not stored, trying again", "err", err)
		}
	}
}

func (p *problems) saveUsers(ctx context.Context) (failed error) {
	todo, saved := map[string]alerts.Problem{}, []analyzer.Hit{}
	p.mu.Lock()
	known := p.byHit()
	for h := range p.unsaved { // what is no problem yet may become one
		if list := problemsOf(known, h); len(list) > 0 {
			for _, v := range list {
				todo[v.ID()] = v
			}
			saved = append(saved, h)
			delete(p.unsaved, h)
		}
	}
	for id, v := range p.list {
		if v.Ignored != nil && v.Ignored.Users > 0 {
			todo[id] = v
		}
	}
	p.mu.Unlock()
	for _, v := range todo {
		n, err := p.countUsers(ctx, &v)
		if err == nil && v.Ignored != nil && v.Ignored.Users > 0 {
			err = p.moreUsers(ctx, &v, n)
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, h := range saved {
			p.unsaved[h] = true
		}
	}
	return failed
}

// moreUsers stores that v has hit n users. If they are as many more as it was to be ignored for, its silence ends, see follow.
func (p *problems) moreUsers(ctx context.Context, v *alerts.Problem, n int) error {
	id, enough := v.Ignored.SilenceID, false
	_, _, err := change(ctx, p.kv, problemKey+v.ID(), func(v *alerts.Problem, _ bool) (bool, error) {
		x := v.Ignored
		if x == nil || x.SilenceID != id {
			return false, nil // decided anew
		}
		old := x.Hit
		x.Hit = max(n-x.Before, 0)
		enough = x.Enough()
		return x.Hit != old, nil
	})
	if err == nil && enough {
		err = p.controls.ExpireSilence(ctx, id, self)
	}
	if errors.Is(err, alerts.ErrNoSilence) {
		return nil // sweep sees it
	}
	return err
}

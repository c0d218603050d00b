package collector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// openProblems returns the problems of one process of several on the same NATS.
func openProblems(t *testing.T, url string) *problems {
	t.Helper()
	c, _ := openControls(t, url)
	p := newProblems(c.kv, c, testLogger())
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { p.watch(ctx) })
	t.Cleanup(func() { cancel(); g.Wait() })
	must.Wait(t, "problems read", p.ready)
	return p
}

// newProblem stores a problem of the shop's planner, and waits for all to see it.
func newProblem(t *testing.T, all ...*problems) alerts.Problem {
	t.Helper()
	v := alerts.Problem{Key: "dropped{}", Service: "shop", Environment: "prod", Stage: "planner", Cause: "dropped", Firing: true, FirstSeen: time.Now(), LastSeen: time.Now()}
	must.Do(t, all[0].kv.Put(t.Context(), problemKey+v.ID(), must.Get(json.Marshal(v))(t)))
	for _, p := range all {
		must.Wait(t, "problem seen", func() bool { _, ok := p.find(v.Key); return ok })
	}
	return v
}

func (p *problems) state(t *testing.T, id string) (string, *alerts.Ignoring) {
	t.Helper()
	v, _, err := p.Get(t.Context(), id)
	must.Do(t, err)
	return v.State(time.Now()), v.Ignored
}

// A problem is ignored as long as its silence lasts, whoever changes it, also if the process that ended it was killed then.
func TestIgnoredWithSilence(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	p, other := openProblems(t, url), openProblems(t, url)
	id := func() string { v := newProblem(t, p, other); return v.ID() }()
	by := alerts.Actor{ID: "anna"}
	v := must.Get(p.Decide(t.Context(), id, alerts.ProblemDecision{Action: alerts.ActionIgnore}, by))(t)
	must.Wait(t, "ignored elsewhere", func() bool { x, _ := other.find("dropped{}"); return x.Ignored != nil })
	s, ok := p.controls.decisions.Silences.Get(v.Ignored.SilenceID)
	if !ok {
		t.Fatal("no silence")
	}
	s.EndsAt = time.Now().Add(time.Hour).UTC()
	must.Get(other.controls.SetSilence(t.Context(), s, by))(t)
	if state, x := p.state(t, id); state != alerts.ProblemIgnored || !x.Until.Equal(s.EndsAt) {
		t.Errorf("%s, %+v; want ignored until %v", state, x, s.EndsAt)
	}
	must.Do(t, other.controls.ExpireSilence(t.Context(), s.ID, by))
	if state, x := p.state(t, id); state != alerts.ProblemNew || x != nil {
		t.Errorf("%s, %+v; its silence has ended", state, x)
	}

	v = must.Get(p.Decide(t.Context(), id, alerts.ProblemDecision{Action: alerts.ActionIgnore}, by))(t)
	other.controls.follow = nil // killed
	must.Do(t, other.controls.ExpireSilence(t.Context(), v.Ignored.SilenceID, by))
	must.Wait(t, "silence ended", func() bool {
		x, ok := p.controls.decisions.Silences.Get(v.Ignored.SilenceID)
		return ok && x.State(time.Now()) == silence.Expired
	})
	must.Do(t, p.sweep(t.Context(), time.Now()))
	state, _ := p.state(t, id)
	must.Equal(t, state, alerts.ProblemIgnored, "state; the watch of a silence may be late")
	must.Do(t, p.sweep(t.Context(), time.Now().Add(2*sweepInterval)))
	if state, x := p.state(t, id); state != alerts.ProblemNew || x != nil {
		t.Errorf("%s, %+v; its silence has ended", state, x)
	}
}

// An open incident can be acknowledged, as the incident of its alerts.
func TestAcknowledgedProblem(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	p := openProblems(t, url)
	v := newProblem(t, p)
	d, by := alerts.ProblemDecision{Action: alerts.ActionAcknowledge}, alerts.Actor{ID: "anna", Via: "mcp"}
	got := must.Get(p.Decide(t.Context(), v.ID(), d, by))(t)
	must.Equal(t, got.State(time.Now()), alerts.ProblemAcknowledged, "state")
	must.Wait(t, "acknowledged", func() bool {
		acks := p.controls.decisions.Acks()
		return len(acks) == 1 && acks[0].By == "anna" && acks[0].Group == v.Key && acks[0].Incident.Equal(v.Incident)
	})
	v.Firing = false
	must.Do(t, p.kv.Put(t.Context(), problemKey+v.ID(), must.Get(json.Marshal(v))(t)))
	must.Contain(t, must.Err(p.Decide(t.Context(), v.ID(), d, by)).Error(), "only an open incident")
}

// Whoever says that something is the new normal, the engines of all processes are told, and it is in the history.
func TestNewNormal(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	p, other := openProblems(t, url), openProblems(t, url)
	by := alerts.Actor{ID: "anna"}
	v := newProblem(t, p, other)
	must.Fail(t, must.Err(other.Decide(t.Context(), v.ID(), alerts.ProblemDecision{Action: alerts.ActionAccept}, by)), "the problem is about failures", "a problem about failures")
	v.Key, v.Measure, v.Incident = "slow{}", "duration", time.Now().Add(-time.Hour).UTC()
	must.Do(t, p.kv.Put(t.Context(), problemKey+v.ID(), must.Get(json.Marshal(v))(t)))
	v = must.Get(other.Decide(t.Context(), v.ID(), alerts.ProblemDecision{Action: alerts.ActionAccept, Note: "longer prompts"}, by))(t)
	v.Firing = false // its alert ends
	if v.Accepted == nil || v.Accepted.By != "anna" || v.State(time.Now()) != alerts.ProblemResolved {
		t.Errorf("%+v is %s", v.Accepted, v.State(time.Now()))
	}
	key := engine.AcceptStoreKey("slow{}")
	must.Wait(t, "told", func() bool { return p.controls.decisions.Accepts()[key].Measure == "duration" })
	if got := p.controls.decisions.Accepts()[key]; got.Stage != "planner" || !got.Since.Equal(v.Incident) {
		t.Errorf("%+v", got)
	}
	rows, missing := problemSource{other, func() (rows.Querier, error) { return nil, errors.New("away") }}.History(t.Context(), "slow{}")
	if len(rows) != 1 || rows[0].Action != alerts.ActionAccept || rows[0].Actor != "anna" || rows[0].Comment != "longer prompts" || missing == nil {
		t.Errorf("history %+v, %v", rows, missing)
	}
}

// A problem that is ignored until it hits more users is open again after exactly these, while the process that leads changes.
func TestIgnoredUntilUsers(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	p, other := openProblems(t, url), openProblems(t, url)
	var read []*analyzer.Tally
	n := 0
	hit := func(stage string, users int) {
		var buckets []uint16
		for range users {
			buckets = append(buckets, analyzer.UserBucket(fmt.Sprint("user", n)))
			n++
		}
		slices.Sort(buckets)
		tally := &analyzer.Tally{Users: []analyzer.UsersHit{{Hit: analyzer.Hit{Service: "shop", Environment: "prod", Stage: stage, Problem: "dropped"}, Buckets: buckets}}}
		read = append(read, tally)
		p.hit(tally)
		other.hit(tally)
	}
	hit("planner", 20) // before there is a problem
	must.Do(t, p.saveUsers(t.Context()))
	v := newProblem(t, p, other)
	hit("planner", 5)
	id, by := v.ID(), alerts.Actor{ID: "anna"}
	d := must.Get(other.Decide(t.Context(), id, alerts.ProblemDecision{Action: alerts.ActionIgnore, Users: 3}, by))(t)
	must.Equal(t, d.Ignored.Before, 25, "users before")
	wait := func(p *problems) {
		must.Wait(t, "ignored", func() bool { x, _ := p.find(v.Key); return x.Ignored != nil })
	}
	wait(p)
	hit("worker", 9) // of another problem
	hit("planner", 2)
	p.hit(read[0]) // the same users again
	must.Do(t, p.saveUsers(t.Context()))
	if state, x := p.state(t, id); state != alerts.ProblemIgnored || x.Hit != 2 {
		t.Errorf("%s, %+v; want 2 users hit", state, x)
	}
	next := openProblems(t, url) // takes over, and reads the tallies again
	wait(next)
	for _, tally := range read {
		next.hit(tally)
	}
	must.Do(t, next.saveUsers(t.Context()))
	if state, x := next.state(t, id); state != alerts.ProblemIgnored || x.Hit != 2 {
		t.Errorf("%s, %+v; want 2 users hit", state, x)
	}
	hit("planner", 1)
	next.hit(read[len(read)-1])
	must.Do(t, next.saveUsers(t.Context()))
	if state, x := next.state(t, id); state != alerts.ProblemNew || x != nil {
		t.Errorf("%s, %+v; 3 more users were hit", state, x)
	}
	s, _ := next.controls.decisions.Silences.Get(d.Ignored.SilenceID)
	must.Equal(t, s.State(time.Now()), silence.Expired, "%+v; 3 more users were hit", s)
}

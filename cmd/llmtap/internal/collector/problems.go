package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	// problemKey is the prefix of the keys of problems.
	problemKey = "problem."
	// maxProblems bounds the problems; of more, those that were resolved longest ago are deleted.
	maxProblems = 2000
	// problemRetention is the time after its last failure for which a problem without a decision of a person is kept.
	problemRetention = 90 * 24 * time.Hour
	// forEver is the end of ignoring a problem without an end.
	forEver = 10 * 365 * 24 * time.Hour
)

// actionRegress is an action of llmtap itself.
const actionRegress = "regress"

// self is llmtap as an actor.
var self = alerts.Actor{ID: "llmtap", Via: "llmtap"}

// ignored is the comment of the silences that ignore problems.
const ignored = "problem ignored"

// problems are the problems of an installation. The leading process writes what its engine sees of them, any process what people
// decide; each process has all of them in memory, from a watch.
//
//	engine ──Group──> Notify ────┐
//	Slack, HTTP API ─> Decide ───┴─> bucket ── watch ──> problems of every process
type problems struct {
	kv       *jetstream.KV
	controls *controls
	logger   *slog.Logger

	mu     sync.Mutex // guards list, loaded and usersHit
	list   map[string]alerts.Problem
	loaded bool // list has what was stored
	usersHit
}

// problemID matches ids of problems. Other texts must not become parts of keys.
var problemID = regexp.MustCompile(`^[0-9a-f]{16}$`)

var (
	_ alerts.Paced    = (*problems)(nil)
	_ alerts.Problems = (*problems)(nil)
)

// Pace implements alerts.Paced: people may mute a problem, which goes on.
func (*problems) Pace() alerts.Pace { return alerts.Pace{Muted: true, Numbers: time.Second} }

// Notify stores what g shows of its problem.
func (p *problems) Notify(ctx context.Context, g alerts.Group) error {
	if g.Problem() == "" {
		return nil
	}
	var regressed bool
	changed, v, err := change(ctx, p.kv, problemKey+alerts.GroupID(g.Key), func(v *alerts.Problem, _ bool) (bool, error) {
		before, err := json.Marshal(v)
		if err != nil {
			return false, err
		}
		regressed = v.Observe(&g)
		worst := g.Worst()
		v.Summary = wording.Summary(&worst)
		if len(worst.Evidence.Shares) == 0 { // what is unusual has no other fix
			v.Fix = cmp.Or(worst.Annotations["runbook"], v.Fix)
		}
		for _, s := range worst.Evidence.Shares {
			if s.ID() == v.Cause {
				v.Kind = wording.Kind(&worst.Evidence, s)
			}
		}
		after, err := json.Marshal(v)
		return string(before) != string(after), err
	})
	if err != nil {
		return &alerts.RetryError{Err: fmt.Errorf("store problem: %w", err)}
	}
	if changed && regressed {
		p.controls.record(ctx, sinks.AlertAction{Action: actionRegress, Group: g.Key, Incident: g.Since(), Comment: "seen again in " + v.Regressed.Version}, self)
	}
	return nil
}

// watch keeps the problems current until ctx ends.
func (p *problems) watch(ctx context.Context) {
	put := func(key string, value []byte) {
		var v alerts.Problem
		if err := json.Unmarshal(value, &v); err != nil {
			p.logger.Error("ignoring an unreadable problem", "key", key, "err", err)
			return
		}
		id := strings.TrimPrefix(key, problemKey)
		if old := p.list[id]; old.Assignee != v.Assignee || (old.Resolved == nil) != (v.Resolved == nil) || (old.Regressed == nil) != (v.Regressed == nil) {
			p.controls.decisions.Touch(v.Key)
		}
		p.list[id] = v
	}
	p.kv.Watch(ctx, []string{problemKey + "*"}, func(values map[string][]byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		clear(p.list)
		p.loaded = true
		for key, value := range values {
			put(key, value)
		}
	}, func(key string, value []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if value == nil {
			delete(p.list, strings.TrimPrefix(key, problemKey))
			return
		}
		put(key, value)
	})
}

// newProblems returns problems that are not known until watch runs.
func newProblems(kv *jetstream.KV, c *controls, logger *slog.Logger) *problems {
	p := &problems{kv: kv, controls: c, logger: logger, list: map[string]alerts.Problem{}, usersHit: usersHit{map[analyzer.Hit]alerts.Users{}, map[analyzer.Hit]bool{}}}
	c.follow = p.follow
	return p
}

// ready reports whether the problems are known.
func (p *problems) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded
}

// find returns the problem of a group.
func (p *problems) find(key string) (alerts.Problem, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.list[alerts.GroupID(key)]
	return v, ok
}

// All returns all problems, the last seen first.
func (p *problems) All() []alerts.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]alerts.Problem, 0, len(p.list))
	for _, v := range p.list {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b alerts.Problem) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// Get returns the problem with an id, as stored; false if there is none.
func (p *problems) Get(ctx context.Context, id string) (v alerts.Problem, ok bool, err error) {
	if !problemID.MatchString(id) {
		return v, false, nil
	}
	value, _, err := p.kv.Get(ctx, problemKey+id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return v, false, nil
	}
	if err == nil {
		err = json.Unmarshal(value, &v)
	}
	return v, err == nil, err
}

// Decide stores what a person decides about a problem, and returns the problem. The error is alerts.ErrNoProblem if there is none.
func (p *problems) Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (alerts.Problem, error) {
	now := time.Now().UTC()
	who := alerts.Decision{By: cmp.Or(by.Name, by.ID), At: now}
	if err := d.Validate(); err != nil {
		return alerts.Problem{}, err
	}
	before, ok, err := p.Get(ctx, id)
	if err != nil {
		return before, fmt.Errorf("read the problem: %w", err)
	}
	if !ok {
		return before, alerts.ErrNoProblem
	}
	if d.Action == alerts.ActionAcknowledge {
		return p.acknowledge(ctx, before, by, who)
	}
	if d.Action == alerts.ActionAccept {
		if err := p.accept(ctx, &before, now); err != nil {
			return before, err
		}
	}
	var muted string // id of the silence that ignores the problem
	users := 0       // hit until now
	if d.Users > 0 {
		if users, err = p.countUsers(ctx, &before); err != nil {
			return before, err
		}
	}
	if d.Action == alerts.ActionIgnore {
		s, err := p.mute(ctx, &before, d, by, now)
		if err != nil {
			return before, err
		}
		muted, d.Until = s.ID, s.EndsAt
	}
	_, v, err := change(ctx, p.kv, problemKey+id, func(v *alerts.Problem, found bool) (bool, error) {
		if !found {
			return false, alerts.ErrNoProblem
		}
		before = *v
		v.Decide(d, who, muted, users)
		return true, nil
	})
	if err != nil {
		return v, fmt.Errorf("store the decision: %w", err)
	}
	if d.Action == alerts.ActionReopen || d.Action == alerts.ActionIgnore {
		if err := p.unmute(ctx, &before, muted, by); err != nil {
			return v, err
		}
	}
	p.controls.record(ctx, sinks.AlertAction{Action: d.Action, Group: v.Key, Incident: v.Incident, SilenceID: muted, EndsAt: d.Until, Comment: d.Comment()}, by)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list[id] = v // so that the next request of this process sees it
	return v, nil
}

// acknowledge acknowledges the open incident of v.
func (p *problems) acknowledge(ctx context.Context, v alerts.Problem, by alerts.Actor, who alerts.Decision) (alerts.Problem, error) {
	if !v.Firing {
		return v, &alerts.InvalidError{What: "decision", Err: errors.New("no alert of the problem fires: only an open incident can be acknowledged")}
	}
	err := p.controls.Acknowledge(ctx, alerts.Ack{Group: v.Key, Incident: v.Incident, By: by.ID, ByName: by.Name, At: who.At}, by.Via)
	if err == nil && v.Acknowledged == nil {
		v.Acknowledged = &who // the engine stores it at its next evaluation
	}
	return v, err
}

// accept stores that what is unusual of v is the new normal, for the engines of all processes.
func (p *problems) accept(ctx context.Context, v *alerts.Problem, now time.Time) error {
	if v.Measure == "" {
		return &alerts.InvalidError{What: "decision", Err: errors.New("the problem is about failures: only what is unusual can be the new normal")}
	}
	value, err := json.Marshal(engine.Accept{Service: v.Service, Environment: v.Environment, Stage: v.Stage, Measure: v.Measure, Since: v.Incident, At: now})
	if err == nil {
		err = p.kv.Put(ctx, engine.AcceptStoreKey(v.Key), value)
	}
	if err != nil {
		return fmt.Errorf("store the new normal: %w", err)
	}
	return nil
}

// mute adds the silence that ignores v.
func (p *problems) mute(ctx context.Context, v *alerts.Problem, d alerts.ProblemDecision, by alerts.Actor, now time.Time) (silence.Silence, error) {
	if d.Until.IsZero() {
		d.Until = now.Add(forEver)
	}
	matchers, err := matchersOf(v)
	if err != nil {
		return silence.Silence{}, &alerts.InvalidError{Err: err}
	}
	return p.controls.AddSilence(ctx, silence.Silence{
		Matchers: matchers, StartsAt: now, EndsAt: d.Until, UpdatedAt: now, CreatedBy: cmp.Or(by.Name, by.ID), Comment: ignored,
	}, v.Key, by)
}

// unmute ends the silences that ignore v, except the one with the id kept. There may be one that v does not name: of a process that
// died before it had stored its decision.
func (p *problems) unmute(ctx context.Context, v *alerts.Problem, kept string, by alerts.Actor) error {
	matchers, err := matchersOf(v)
	if err != nil {
		return nil // so there is none
	}
	var ids []string
	if v.Ignored != nil {
		ids = append(ids, v.Ignored.SilenceID)
	}
	for _, s := range p.controls.Silences() {
		if s.Comment == ignored && s.Matchers.String() == matchers.String() && !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	for _, id := range ids {
		if id == kept {
			continue
		}
		if err := p.controls.ExpireSilence(ctx, id, by); err != nil && !errors.Is(err, alerts.ErrNoSilence) {
			return err
		}
	}
	return nil
}

// follow ends ignoring a problem with the silence that ignores it. An error is only logged: sweep tries again.
func (p *problems) follow(ctx context.Context, s *silence.Silence, by alerts.Actor) {
	for _, v := range p.All() {
		if v.Ignored == nil || v.Ignored.SilenceID != s.ID || v.Ignored.Until.Equal(s.EndsAt) {
			continue
		}
		over, comment := false, ""
		changed, _, err := change(ctx, p.kv, problemKey+v.ID(), func(v *alerts.Problem, _ bool) (bool, error) {
			if v.Ignored == nil || v.Ignored.SilenceID != s.ID {
				return false, nil
			}
			if over = !s.EndsAt.After(time.Now()); over {
				if comment = "its silence was ended"; v.Ignored.Enough() {
					comment = "it has hit " + v.Ignored.MoreUsers()
				}
				v.Ignored = nil
			} else {
				v.Ignored.Until = s.EndsAt
			}
			return true, nil
		})
		if err != nil {
			p.logger.Warn("a problem is ignored although its silence was changed, trying again", "problem", v.ID(), "err", err)
		} else if changed && over {
			p.controls.record(ctx, sinks.AlertAction{Action: alerts.ActionReopen, Group: v.Key, Incident: v.Incident, SilenceID: s.ID, Comment: comment}, by)
		}
	}
}

// matchersOf returns the matchers of all alerts of v.
func matchersOf(v *alerts.Problem) (silence.Matchers, error) {
	var matchers silence.Matchers
	for _, kv := range [][2]string{{"service", v.Service}, {"environment", v.Environment}, {"stage", v.Stage}, {alerts.ProblemLabel, v.Cause}} {
		m, err := silence.NewMatcher(kv[0], "=", kv[1])
		if err != nil {
			return nil, err
		}
		matchers = append(matchers, m)
	}
	return matchers, nil
}

// sweep deletes problems that nobody needs any more, and follows silences that a process has changed before it died.
func (p *problems) sweep(ctx context.Context, now time.Time) error {
	all := p.All()
	for i, v := range all {
		if x := v.Ignored; x != nil && now.Before(x.Until) && now.Sub(x.At) > sweepInterval {
			s, ok := p.controls.decisions.Silences.Get(x.SilenceID)
			if s.ID = x.SilenceID; !ok && p.controls.ready() {
				s.EndsAt = now // it was deleted
			}
			if !s.EndsAt.IsZero() {
				p.follow(ctx, &s, self)
			}
		}
		old := now.Sub(v.LastSeen) > problemRetention && v.Resolved == nil && v.Ignored == nil
		if v.Firing || !old && i < maxProblems {
			continue
		}
		for _, key := range []string{usersKey, problemKey} {
			if err := purgeKey(ctx, p.kv, key+v.ID()); err != nil {
				return fmt.Errorf("delete an old problem: %w", err)
			}
		}
	}
	return nil
}

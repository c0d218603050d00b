package engine

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/sent"
)

const (
	// stateKey is the key of savedState; each group has its own key.
	stateKey = "engine"
	// stateTimeout is the time limit for reading the state.
	stateTimeout = 10 * time.Second
	// putTimeout is the time limit for the last write of the state.
	putTimeout = 5 * time.Second
	// stateRetry is the delay before another attempt to write the state.
	stateRetry = 5 * time.Second
	// leadRetry is the delay before another attempt to read the state of the previous leader. Until then nobody notifies.
	leadRetry = time.Second
	// stateInterval is the minimum time between two writes of the progress, and of groups of which only numbers changed.
	// Otherwise every firing group would be written at each step.
	stateInterval = 5 * time.Second
	// maxPuts bounds the concurrent writes and reads of groups, so that the intent of one group does not wait for many
	// others, and a new leader not for the sum of their round trips.
	maxPuts = 16
	// storeTogether is the time for which intents that are written together wait for each other: the groups of a storm are then due at
	// once, and are one summary. A Store that needs longer delays no group because of others.
	storeTogether = time.Second
)

// savedState is the engine's progress, as stored.
type savedState struct {
	LastStep int64          `json:"last_step"`
	Groups   []string       `json:"groups"` // keys of the open groups
	Versions []savedVersion `json:"versions"`
	Quiet    savedQuiet     `json:"quiet,omitzero"`
}

// savedGroup is an open group, stored before its notifications are sent.
type savedGroup struct {
	Group   alerts.Group      `json:"group"`
	Peaks   []alerts.Evidence `json:"peaks"`            // evidence at the peaks of Group.Alerts
	Settled bool              `json:"settled"`          // every receiver has been sent the latest news and decisions
	Unsent  bool              `json:"unsent"`           // muted from its start: people have not been notified
	Folded  bool              `json:"folded,omitempty"` // people were last notified in a summary
	Missed  bool              `json:"missed,omitempty"` // ended while a receiver of people failed, which may know it nevertheless
	NewsAt  time.Time         `json:"news_at"`          // time of the last delivery of news or a reminder
}

func groupStoreKey(group string) string { return "group." + alerts.GroupID(group) }

// LoadGroup reads the open group with this GroupID from the Store of an engine, whichever process runs it. ok is false if
// the group is not open.
func LoadGroup(ctx context.Context, store alerts.Store, id string) (g alerts.Group, ok bool, err error) {
	var state savedState
	if _, err := sent.Get(ctx, store, stateKey, &state); err != nil {
		return g, false, err
	}
	i := slices.IndexFunc(state.Groups, func(key string) bool { return alerts.GroupID(key) == id })
	if i < 0 {
		return g, false, nil
	}
	var saved savedGroup
	ok, err = sent.Get(ctx, store, groupStoreKey(state.Groups[i]), &saved)
	return saved.Group, ok, err
}

// state writes an engine's groups to the Store.
type state struct {
	store    alerts.Store // if nil, nothing is stored
	log      *slog.Logger
	m        *metrics
	changed  signal // raised when there is something to write
	intended func() // called after groups with news were stored or rejected by the Store, with mu held
	written  savedState
	mu       *sync.Mutex // Engine.mu
	groups   *groups
	versions *versions
	quiet    *quietTimes
	usuals   *usuals  // nil: they are not learned
	budgets  *budgets // nil: they are not counted
}

// run writes the state after every change, and again after an error, until ctx ends.
func (s *state) run(ctx context.Context) {
	var complete time.Time // time of the last complete write
	for {
		var wait time.Duration
		if all := time.Since(complete) >= stateInterval; !s.save(ctx, all) || all && !s.saveLearned(ctx, false) {
			wait = stateRetry
		} else if all {
			complete = time.Now()
		} else {
			wait = stateInterval - time.Since(complete)
		}
		if !s.changed.wait(ctx, wait) {
			return
		}
	}
}

// save writes the changes: first the groups, then the last step whose evaluation they include. After a crash in
// between, that step is evaluated again and finds its groups. Groups with news are written first because their
// notifications wait for the write. If all is false, changes of numbers and of the last step alone are not written.
// save reports whether everything was written.
func (s *state) save(ctx context.Context, all bool) bool {
	news, others, state := s.collect(all)
	failed := s.putGroups(ctx, news) + s.putGroups(ctx, others)
	if failed > 0 || state.LastStep == 0 || !all && len(news)+len(others) == 0 || reflect.DeepEqual(state, s.written) {
		return failed == 0
	}
	if !s.put(ctx, stateKey, state) {
		return false
	}
	s.written = state
	return true
}

// putGroups writes list and returns the number of groups that the Store rejected.
func (s *state) putGroups(ctx context.Context, list []groupChange) (failed int) {
	var g errgroup.Group
	g.SetLimit(maxPuts)
	var waiting []groupChange // whose intent was written, or rejected
	together := true
	release := func() {
		// If the Store rejects a group, its notifications are sent nevertheless, because a duplicate is better than a
		// missing notification.
		news := false
		for _, c := range waiting {
			news = news || c.group.stored < c.news
			c.group.stored = max(c.group.stored, c.news)
		}
		if waiting = nil; news {
			s.intended()
		}
	}
	end := time.AfterFunc(storeTogether, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		together = false
		release()
	})
	defer end.Stop()
	for _, c := range list {
		g.Go(func() error {
			written := s.put(ctx, groupStoreKey(c.group.key), c.saved)
			s.mu.Lock()
			defer s.mu.Unlock()
			if !written {
				c.group.dirty = true
				failed++
			}
			if waiting = append(waiting, c); !together {
				release()
			}
			return nil
		})
	}
	_ = g.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	release()
	return failed
}

// A groupChange is a changed group that must be written.
type groupChange struct {
	group *openGroup
	news  uint64
	saved savedGroup
}

// collect returns the changed groups, those with news first, and the engine's progress. If all is false, it omits groups
// of which only numbers changed.
func (s *state) collect(all bool) (news, others []groupChange, state savedState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state.LastStep = s.groups.evaluated
	for _, o := range s.groups.sorted() {
		s.groups.settle(o) // complete settles o only if there are receivers
		if s.groups.open[o.key] == nil {
			continue
		}
		state.Groups = append(state.Groups, o.key)
		if !o.dirty && (!all || !o.counted) {
			continue
		}
		o.dirty, o.counted = false, false
		c := groupChange{o, o.news, savedGroup{Group: o.group(), Settled: o.settled, Unsent: o.unsent(), Folded: o.folded(), Missed: o.anyMissed()}}
		for _, a := range o.alerts {
			c.saved.Peaks = append(c.saved.Peaks, a.peak)
		}
		for _, d := range o.sent {
			if d.newsAt.After(c.saved.NewsAt) {
				c.saved.NewsAt = d.newsAt
			}
		}
		if o.stored < o.news {
			news = append(news, c)
		} else {
			others = append(others, c)
		}
	}
	state.Versions, state.Quiet = s.versions.save(), s.quiet.save()
	return news, others, state
}

func (s *state) put(ctx context.Context, key string, v any) bool {
	if s.store == nil {
		return true
	}
	err := sent.Put(ctx, s.store, key, v)
	if err != nil {
		s.m.failed(s.log, "store", err, "key", key)
	}
	return err == nil
}

// get decodes the value of key into v and reports whether there is one. An unreadable value counts as missing;
// otherwise every start would fail. At worst, alerts are sent twice.
func (s *state) get(ctx context.Context, key string, v any) (bool, error) {
	if s.store == nil {
		return false, nil
	}
	found, err := sent.Get(ctx, s.store, key, v)
	if errors.Is(err, sent.ErrUnreadable) {
		s.m.failed(s.log, "store", err, "key", key)
		return false, nil
	}
	return found, err
}

// loadLearned reads what is learned over days, unless it is known already.
func (s *state) loadLearned(ctx context.Context) error {
	return errors.Join(s.loadUsual(ctx), s.loadBudgets(ctx))
}

// saveLearned stores what is learned over days, where it is due or, if all is set, incomplete. It reports whether it did.
func (s *state) saveLearned(ctx context.Context, all bool) bool {
	usual, spent := s.saveUsual(ctx, all), s.saveBudgets(ctx, all)
	return usual && spent
}

// saved is the state written by the previous leader, or by this engine before a restart.
type saved struct {
	evaluated int64
	versions  []savedVersion
	quiet     savedQuiet
	groups    map[string]*openGroup
}

// load reads the saved state.
func (s *state) load(ctx context.Context) (*saved, error) {
	state, err := s.progress(ctx)
	if err != nil {
		return nil, err
	}
	out := &saved{evaluated: state.LastStep, versions: state.Versions, quiet: state.Quiet, groups: map[string]*openGroup{}}
	groups := make([]*openGroup, len(state.Groups))
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(maxPuts)
	for i, key := range state.Groups {
		g.Go(func() error {
			var saved savedGroup
			ok, err := s.get(all, groupStoreKey(key), &saved)
			if ok {
				groups[i] = saved.restore(key, newDeliveries(s.groups.receivers), time.Unix(state.LastStep, 0).UTC())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, key := range state.Groups {
		if groups[i] != nil {
			out.groups[key] = groups[i]
		}
	}
	s.written = savedState{}
	return out, nil
}

// progress reads the engine's progress. A step in the future is ignored.
func (s *state) progress(ctx context.Context) (state savedState, err error) {
	if _, err := s.get(ctx, stateKey, &state); err != nil {
		return state, err
	}
	if ahead := time.Until(time.Unix(state.LastStep, 0)); ahead >= time.Minute {
		s.log.Warn("stored alert evaluation is in the future and is ignored", "ahead", ahead)
		state.LastStep = 0
	}
	return state, nil
}

// restore returns the open group as of the last evaluation. Evaluations that change nothing are not stored.
func (g *savedGroup) restore(key string, sent []delivery, evaluated time.Time) *openGroup {
	o := &openGroup{key: key, version: 1, news: 1, stored: 1, settled: g.Settled, untold: time.Now(), sent: sent, ack: g.Group.Ack}
	for i, a := range g.Group.Alerts {
		t := &trackedAlert{Alert: a, key: rules.Key(a.Name, a.Labels), restored: true, known: map[string]bool{}, peak: a.Evidence, counted: a.Evidence.LastFailed}
		if i < len(g.Peaks) {
			t.peak = g.Peaks[i]
		}
		if t.State == alerts.Firing && t.UpdatedAt.Before(evaluated) {
			t.UpdatedAt = evaluated
		}
		t.learn()
		o.alerts = append(o.alerts, t)
	}
	if g.Settled {
		for i := range o.sent {
			if d := &o.sent[i]; !d.to.people() || !g.Unsent {
				d.version, d.news, d.at, d.newsAt = 1, 1, g.NewsAt, g.NewsAt
			}
		}
	}
	for i := range o.sent {
		d := &o.sent[i]
		d.folded = g.Folded && d.to.folder != nil
		d.tried, d.missed = !g.Settled, g.Missed && d.to.people()
	}
	return o
}

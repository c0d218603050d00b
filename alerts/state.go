package alerts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
)

// stateKey is where the engine's own state is; notices are beside it.
const stateKey = "engine"

// savedState is the engine's state of the rules' progress.
type savedState struct {
	LastStep int64          `json:"last_step"`
	Notices  []string       `json:"notices"` // keys of open groups
	Versions []savedVersion `json:"versions"`
}

type savedVersion struct {
	Service string `json:"service"`
	Version string `json:"version"`
	First   int64  `json:"first"`
}

// savedNotice is a group as it should be told, written before it is.
type savedNotice struct {
	Group Group      `json:"group"`
	Peaks []Evidence `json:"peaks"` // of Group.Alerts
	Told  bool       `json:"told"`  // everybody was
	News  time.Time  `json:"news"`  // when
}

func noticeKey(group string) string {
	h := sha256.Sum256([]byte(group))
	return "notice." + hex.EncodeToString(h[:8])
}

// save writes what changed: first the notices, then the step that made them, so that a crash in between evaluates
// the step again and finds its notices there. News come before numbers, and wake the receivers, which wait for them. It
// reports whether the store took everything.
func (e *Engine) save(ctx context.Context) bool {
	e.mu.Lock()
	type change struct {
		n     *notice
		rev   uint64
		saved savedNotice
	}
	var changes, numbers []change
	state := savedState{LastStep: e.told}
	for _, n := range e.sortedNotices() {
		e.settle(n) // without receivers nobody else does
		if e.notices[n.key] == nil {
			continue
		}
		state.Notices = append(state.Notices, n.key)
		if !n.dirty {
			continue
		}
		n.dirty = false
		c := change{n, n.rev, savedNotice{Group: n.group(), Told: n.settled}}
		for _, a := range n.alerts {
			c.saved.Peaks = append(c.saved.Peaks, a.peak)
		}
		for _, s := range n.sent {
			if s.news.After(c.saved.News) {
				c.saved.News = s.news
			}
		}
		if n.saved < n.rev {
			changes = append(changes, c)
		} else {
			numbers = append(numbers, c)
		}
	}
	news := len(changes)
	changes = append(changes, numbers...)
	for k, first := range e.versions {
		state.Versions = append(state.Versions, savedVersion{k[0], k[1], first})
	}
	e.mu.Unlock()

	ok := true
	for i, c := range changes {
		err := e.put(ctx, noticeKey(c.n.key), c.saved)
		e.mu.Lock()
		// A notice that the store refuses is told all the same: one message too many is better than none.
		c.n.saved = max(c.n.saved, c.rev)
		if err != nil {
			ok, c.n.dirty = false, true
		}
		e.mu.Unlock()
		if i == news-1 {
			e.wakeReceivers()
		}
	}
	if !ok || state.LastStep == 0 {
		return ok
	}
	slices.SortFunc(state.Versions, func(a, b savedVersion) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Version, b.Version))
	})
	if reflect.DeepEqual(state, e.written) {
		return true
	}
	if ok = e.put(ctx, stateKey, state) == nil; ok {
		e.written = state
	}
	return ok
}

func (e *Engine) put(ctx context.Context, key string, v any) error {
	if e.store == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = e.store.Put(ctx, key, b)
	}
	if err != nil {
		err = fmt.Errorf("write alert state: %w", err)
		e.failed("store", err, "key", key)
	}
	return err
}

func (e *Engine) get(ctx context.Context, key string, v any) (bool, error) {
	b, err := e.store.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read alert state %s: %w", key, err)
	}
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		// What cannot be read would stop every start; at worst its alerts are told twice.
		e.failed("store", fmt.Errorf("decode alert state: %w", err), "key", key)
		return false, nil
	}
	return true, nil
}

// load reads what the last run of the engine wrote.
func (e *Engine) load(ctx context.Context) error {
	if e.store == nil {
		return nil
	}
	var state savedState
	if ok, err := e.get(ctx, stateKey, &state); err != nil || !ok {
		return err
	}
	if ahead := time.Until(time.Unix(state.LastStep, 0)); ahead < time.Minute {
		e.told = state.LastStep
	} else {
		e.log.Warn("stored alert step lies in the future and is ignored", "ahead", ahead)
	}
	for _, v := range state.Versions {
		e.versions[[2]string{v.Service, v.Version}] = v.First
	}
	for _, key := range state.Notices {
		var s savedNotice
		ok, err := e.get(ctx, noticeKey(key), &s)
		if err != nil {
			return err
		}
		if ok {
			e.restore(key, s)
		}
	}
	return nil
}

func (e *Engine) restore(key string, s savedNotice) {
	n := &notice{key: key, version: 1, rev: 1, saved: 1, settled: s.Told, sent: make([]delivery, len(e.receivers))}
	for i, a := range s.Group.Alerts {
		t := &tracked{Alert: a, key: rules.Key(a.Name, a.Labels), restored: true, known: map[string]bool{}, peak: a.Evidence}
		if i < len(s.Peaks) {
			t.peak = s.Peaks[i]
		}
		t.learn()
		n.alerts = append(n.alerts, t)
	}
	if s.Told {
		for i := range n.sent {
			n.sent[i] = delivery{version: 1, rev: 1, at: s.News, news: s.News}
		}
	}
	e.notices[key] = n
}

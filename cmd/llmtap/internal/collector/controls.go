package collector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	// actionTimeout is the time limit for storing the row of an action in NATS, and for queueing it while the queue is full.
	actionTimeout = time.Second
	// visibleTimeout is the time limit for a change to arrive at the watch of this process.
	visibleTimeout = time.Second
	// writeAttempts bounds the attempts to change a value that others change concurrently.
	writeAttempts = 5
	// silenceRetention is the retention of expired silences; it equals the default of Alertmanager.
	silenceRetention = 120 * time.Hour
	// ackRetention is the minimum retention of an acknowledgement. A longer one is kept until its incident ends.
	ackRetention = time.Hour
	// acceptRetention is the retention of a new normal, which engines have applied and stored long before.
	acceptRetention = 24 * time.Hour
	// sweepInterval is the interval at which the leader deletes what is no longer needed.
	sweepInterval = time.Minute
)

// Actions of people on alerts, as stored.
const (
	actionUnacknowledge = "unacknowledge"
	actionSilence       = "silence"
	actionChangeSilence = "change_silence"
	actionUnsilence     = "unsilence"
)

// errTooManySilences means that no more silences can be stored.
var errTooManySilences = &alerts.InvalidError{Err: fmt.Errorf("there are %d silences that have not expired; expire some first", silence.MaxSilences)}

// controls implements alerts.Controls over the bucket of the alerts' state. Any process may write; each process has all
// silences and acknowledgements in memory, from a watch.
//
//	Slack button, HTTP API ──> controls ──> bucket ── watch ──> decisions of every process ──> engines
//	                               └──────> row of alert_actions
type controls struct {
	kv        *jetstream.KV
	decisions *engine.Decisions
	groups    []alerts.Store          // state of each engine
	engines   func() []*engine.Engine // engines of this process
	actions   *actionRows
	follow    func(ctx context.Context, s *silence.Silence, by alerts.Actor) // is called with a silence whose end was changed; nil: nobody wants to know
	logger    *slog.Logger
}

var _ alerts.Controls = (*controls)(nil)

// watch keeps the decisions current until ctx ends.
func (c *controls) watch(ctx context.Context) {
	unreadable := func(err error) {
		if err != nil {
			c.logger.Error("ignoring an unreadable silence, acknowledgement or new normal", "err", err)
		}
	}
	c.kv.Watch(ctx, engine.DecisionKeys, func(values map[string][]byte) { unreadable(c.decisions.Replace(values)) }, func(key string, value []byte) {
		if value == nil {
			c.decisions.Delete(key)
			return
		}
		unreadable(c.decisions.Put(key, value))
	})
}

// ready reports whether the silences are known.
func (c *controls) ready() bool {
	select {
	case <-c.decisions.Loaded():
		return true
	default:
		return false
	}
}

// Group implements alerts.Controls.
func (c *controls) Group(ctx context.Context, id string) (alerts.Group, bool, error) {
	for _, store := range c.groups {
		if g, ok, err := engine.LoadGroup(ctx, store, id); ok || err != nil {
			return g, ok, err
		}
	}
	return alerts.Group{}, false, nil
}

// Expr implements alerts.Controls.
func (c *controls) Expr(a *alerts.Alert) string {
	for _, e := range c.engines() {
		if expr := e.Expr(a); expr != "" {
			return expr
		}
	}
	return ""
}

// change reads the value of key, if any, into v and writes it if edit returns true. It repeats this if the value was changed
// concurrently.
func change[T any](ctx context.Context, kv *jetstream.KV, key string, edit func(v *T, found bool) (bool, error)) (changed bool, v T, err error) {
	for range writeAttempts {
		v = *new(T)
		value, revision, err := kv.Get(ctx, key)
		found := err == nil
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return false, v, err
		}
		if found {
			if err := json.Unmarshal(value, &v); err != nil {
				return false, v, fmt.Errorf("decode %s: %w", key, err)
			}
		}
		if changed, err = edit(&v, found); err != nil || !changed {
			return false, v, err
		}
		if value, err = json.Marshal(v); err != nil {
			return false, v, fmt.Errorf("encode %s: %w", key, err)
		}
		_, err = kv.Update(ctx, key, value, revision)
		if err == nil {
			return true, v, nil
		}
		if !errors.Is(err, jetstream.ErrKeyConflict) {
			return false, v, err
		}
	}
	return false, v, fmt.Errorf("write %s: %w", key, jetstream.ErrKeyConflict)
}

// Acknowledge implements alerts.Controls.
func (c *controls) Acknowledge(ctx context.Context, a alerts.Ack, via string) error {
	if a.At.IsZero() {
		a.At = time.Now().UTC()
	}
	changed, _, err := change(ctx, c.kv, engine.AckStoreKey(a.Group), func(v *engine.StoredAck, found bool) (bool, error) {
		if found && !v.Withdrawn && v.Incident.Equal(a.Incident) {
			return false, nil
		}
		if !found && len(c.decisions.Acks()) >= engine.MaxAcks {
			return false, fmt.Errorf("there are %d acknowledgements", engine.MaxAcks)
		}
		*v = engine.StoredAck{Ack: a}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("store the acknowledgement: %w", err)
	}
	if changed {
		c.record(ctx, sinks.AlertAction{Action: alerts.ActionAcknowledge, Group: a.Group, Incident: a.Incident}, alerts.Actor{ID: a.By, Name: a.ByName, Via: via})
	}
	return nil
}

// Unacknowledge implements alerts.Controls.
func (c *controls) Unacknowledge(ctx context.Context, group string, incident time.Time, by alerts.Actor) error {
	changed, _, err := change(ctx, c.kv, engine.AckStoreKey(group), func(v *engine.StoredAck, found bool) (bool, error) {
		if !found || v.Withdrawn || !v.Incident.Equal(incident) {
			return false, nil
		}
		v.Withdrawn = true
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("withdraw the acknowledgement: %w", err)
	}
	if changed {
		c.record(ctx, sinks.AlertAction{Action: actionUnacknowledge, Group: group, Incident: incident}, by)
	}
	return nil
}

// AddSilence implements alerts.Controls.
func (c *controls) AddSilence(ctx context.Context, s silence.Silence, group string, by alerts.Actor) (silence.Silence, error) {
	if s.ID == "" {
		s.ID = uuid.NewString()
	}
	now := time.Now().UTC()
	if s.StartsAt.Before(now) {
		s.StartsAt = now
	}
	s.UpdatedAt = now
	if err := validate(&s, now); err != nil {
		return s, err
	}
	if err := c.makeRoom(ctx, now); err != nil {
		return s, err
	}
	changed, stored, err := change(ctx, c.kv, engine.SilenceStoreKey(s.ID), func(v *silence.Silence, found bool) (bool, error) {
		if !found {
			*v = s
		}
		return !found, nil
	})
	if err != nil {
		return s, fmt.Errorf("store the silence: %w", err)
	}
	if changed {
		c.recordSilence(ctx, actionSilence, &stored, group, by)
		c.awaitSilence(ctx, &stored)
	}
	return stored, nil
}

// validate returns an error if s cannot be added at now.
func validate(s *silence.Silence, now time.Time) error {
	err := s.Validate()
	if !s.EndsAt.IsZero() && !s.EndsAt.After(now) {
		err = fmt.Errorf("the end, %s, is in the past", s.EndsAt.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return &alerts.InvalidError{Err: err}
	}
	return nil
}

// SetSilence adds s or, if its id is that of a silence, changes that one, like Alertmanager: a change of the matchers, or of
// the start of an active silence, expires it and adds another one. The error is alerts.ErrNoSilence if the id is unknown.
func (c *controls) SetSilence(ctx context.Context, s silence.Silence, by alerts.Actor) (silence.Silence, error) {
	if s.ID == "" {
		return c.AddSilence(ctx, s, "", by)
	}
	if !silence.ValidID(s.ID) {
		return s, alerts.ErrNoSilence
	}
	now := time.Now().UTC()
	replace := false
	changed, stored, err := change(ctx, c.kv, engine.SilenceStoreKey(s.ID), func(v *silence.Silence, found bool) (bool, error) {
		if !found {
			return false, alerts.ErrNoSilence
		}
		state := v.State(now)
		replace = state == silence.Expired || v.Matchers.String() != s.Matchers.String() ||
			state == silence.Active && s.StartsAt.Sub(v.StartsAt).Abs() >= time.Millisecond
		if replace {
			return false, nil
		}
		if state == silence.Active {
			s.StartsAt = v.StartsAt
		} else if s.StartsAt.Before(now) {
			s.StartsAt = now
		}
		s.UpdatedAt = now
		if err := validate(&s, now); err != nil {
			return false, err
		}
		*v = s
		return true, nil
	})
	if err != nil {
		return s, fmt.Errorf("change silence %s: %w", s.ID, err)
	}
	if changed {
		c.recordSilence(ctx, actionChangeSilence, &stored, "", by)
		c.moved(ctx, &stored, by)
	}
	if !replace {
		return stored, nil
	}
	old := s.ID
	s.ID = ""
	s, err = c.AddSilence(ctx, s, "", by)
	if err == nil {
		err = c.ExpireSilence(ctx, old, by)
	}
	return s, err
}

// ExpireSilence implements alerts.Controls.
func (c *controls) ExpireSilence(ctx context.Context, id string, by alerts.Actor) error {
	if !silence.ValidID(id) {
		return alerts.ErrNoSilence
	}
	now := time.Now().UTC()
	changed, stored, err := change(ctx, c.kv, engine.SilenceStoreKey(id), func(v *silence.Silence, found bool) (bool, error) {
		if !found {
			return false, alerts.ErrNoSilence
		}
		switch v.State(now) {
		case silence.Expired:
			return false, nil
		case silence.Pending:
			v.StartsAt = now
		case silence.Active:
		}
		v.EndsAt, v.UpdatedAt = now, now
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("expire silence %s: %w", id, err)
	}
	if changed {
		c.recordSilence(ctx, actionUnsilence, &stored, "", by)
		c.moved(ctx, &stored, by)
	}
	return nil
}

// moved is called when the end of s has changed.
func (c *controls) moved(ctx context.Context, s *silence.Silence, by alerts.Actor) {
	c.awaitSilence(ctx, s)
	if c.follow != nil {
		c.follow(ctx, s, by)
	}
}

// Refuse implements alerts.Controls.
func (c *controls) Refuse(ctx context.Context, action, group, reason string, by alerts.Actor) error {
	c.record(ctx, sinks.AlertAction{Action: action, Refused: true, Group: group, Comment: reason}, by)
	return nil
}

// Record implements alerts.Controls.
func (c *controls) Record(ctx context.Context, action, group, comment string, by alerts.Actor) error {
	c.record(ctx, sinks.AlertAction{Action: action, Group: group, Comment: comment}, by)
	return nil
}

// Silences implements alerts.Controls.
func (c *controls) Silences() []silence.Silence {
	now := time.Now()
	return slices.DeleteFunc(c.decisions.Silences.All(), func(s silence.Silence) bool { return s.State(now) == silence.Expired })
}

// All returns all silences, sorted by start.
func (c *controls) All() []silence.Silence { return c.decisions.Silences.All() }

// Firing returns the open groups of this process. A process that does not notify knows them, too.
func (c *controls) Firing() (list []alerts.Group) {
	for _, e := range c.engines() {
		list = append(list, e.Groups()...)
	}
	return list
}

// makeRoom deletes the silence that expired first if there are too many.
func (c *controls) makeRoom(ctx context.Context, now time.Time) error {
	all := c.decisions.Silences.All()
	if len(all) < silence.MaxSilences {
		return nil
	}
	oldest := slices.MinFunc(all, func(a, b silence.Silence) int { return a.EndsAt.Compare(b.EndsAt) })
	if oldest.State(now) != silence.Expired {
		return errTooManySilences
	}
	if err := c.purge(ctx, engine.SilenceStoreKey(oldest.ID)); err != nil {
		return fmt.Errorf("make room for the silence: %w", err)
	}
	return nil
}

// purge deletes a key here and in the bucket. Other processes see it at their next resync.
func (c *controls) purge(ctx context.Context, key string) error {
	if err := purgeKey(ctx, c.kv, key); err != nil {
		return err
	}
	c.decisions.Delete(key)
	return nil
}

// purgeKey deletes a key, if it exists.
func purgeKey(ctx context.Context, kv *jetstream.KV, key string) error {
	_, revision, err := kv.Get(ctx, key)
	if err == nil {
		err = kv.Purge(ctx, key, revision)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	return err
}

// sweep deletes expired silences, and acknowledgements of ended incidents, and stores what other processes have left, every
// minute until ctx ends. It also calls problems. open reports whether a group is open.
func (c *controls) sweep(ctx context.Context, problems func(context.Context, time.Time) error, open func(group string) bool) {
	for {
		sleep(ctx, sweepInterval)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if err := c.actions.restore(ctx, now); err != nil && ctx.Err() == nil {
			c.logger.Warn("rows of alert actions wait in NATS", "err", err)
		}
		if err := problems(ctx, now); err != nil && ctx.Err() == nil {
			c.logger.Warn("old problems not deleted, trying again", "err", err)
		}
		var keys []string
		for _, s := range c.decisions.Silences.All() {
			if now.Sub(s.EndsAt) > silenceRetention {
				keys = append(keys, engine.SilenceStoreKey(s.ID))
			}
		}
		for _, a := range c.decisions.Acks() {
			if now.Sub(a.At) > ackRetention && !open(a.Group) {
				keys = append(keys, engine.AckStoreKey(a.Group))
			}
		}
		for key, a := range c.decisions.Accepts() {
			if now.Sub(a.At) > acceptRetention {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			if err := c.purge(ctx, key); err != nil && ctx.Err() == nil {
				c.logger.Warn("expired silence, acknowledgement or new normal not deleted, trying again", "err", err)
				break
			}
		}
	}
}

// awaitSilence waits until the watch of this process has s, so that the next request sees it.
func (c *controls) awaitSilence(ctx context.Context, s *silence.Silence) {
	for end := time.Now().Add(visibleTimeout); ctx.Err() == nil && time.Now().Before(end); sleep(ctx, 2*time.Millisecond) {
		if x, ok := c.decisions.Silences.Get(s.ID); ok && !x.UpdatedAt.Before(s.UpdatedAt) {
			return
		}
	}
}

func (c *controls) recordSilence(ctx context.Context, action string, s *silence.Silence, group string, by alerts.Actor) {
	row := sinks.AlertAction{Action: action, Group: group, SilenceID: s.ID, Matchers: s.Matchers.String(), EndsAt: s.EndsAt, Comment: s.Comment}
	for _, m := range s.Matchers {
		if m.Op() == "=" && m.Name == "service" {
			row.Service = m.Value
		}
	}
	c.record(ctx, row, by)
}

// record stores the row of an action. The action has happened, so that an error is only logged.
func (c *controls) record(ctx context.Context, row sinks.AlertAction, by alerts.Actor) {
	row.ID, row.At, row.Actor, row.ActorName, row.Via = uuid.Must(uuid.NewV7()).String(), time.Now().UTC(), by.ID, by.Name, by.Via
	row.Name, _, _ = strings.Cut(row.Group, "{")
	if row.Service == "" {
		row.Service = engine.GroupLabel(row.Group, "service")
	}
	c.logger.Info("alert action", "action", row.Action, "refused", row.Refused, "group", row.Group, "silence_id", row.SilenceID, "actor", row.Actor, "via", row.Via)
	c.actions.add(ctx, &row)
}

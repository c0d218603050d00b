package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
)

const (
	// silenceKey, ackKey and acceptKey are the prefixes of the keys of stored decisions.
	silenceKey = "silence."
	ackKey     = "ack."
	acceptKey  = "accept."

	// MaxAcks bounds the acknowledgements in memory and in the Store.
	MaxAcks = 1000
)

// DecisionKeys are the keys of stored decisions, as patterns of NATS.
var DecisionKeys = []string{silenceKey + "*", ackKey + "*", acceptKey + "*"}

// SilenceStoreKey returns the key of a stored silence.
func SilenceStoreKey(id string) string { return silenceKey + id }

// AckStoreKey returns the key of the stored acknowledgement of a group.
func AckStoreKey(group string) string { return ackKey + alerts.GroupID(group) }

// AcceptStoreKey returns the key of the stored Accept of a group.
func AcceptStoreKey(group string) string { return acceptKey + alerts.GroupID(group) }

// An Accept is a person's statement that what a measure of a stage has been since a time is the new normal.
type Accept struct {
	Service     string    `json:"service"`
	Environment string    `json:"environment"`
	Stage       string    `json:"stage"`
	Measure     string    `json:"measure"`
	Since       time.Time `json:"since"` // start of the incident; what is unusual began earlier, as the engine knows
	At          time.Time `json:"at"`    // when it was said: in stream time, it is valid from then on
}

// A StoredAck is the stored acknowledgement of a group. It stays after it was withdrawn, so that every process sees that.
type StoredAck struct {
	alerts.Ack
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Decisions are the silences, acknowledgements and new normals of an installation in memory. Every process has its own, which a watch
// of the stored decisions keeps current. It is safe for concurrent use. The nil *Decisions are empty.
type Decisions struct {
	Silences *silence.Set

	mu        sync.Mutex           // guards the rest
	acks      map[string]StoredAck // by key in the Store
	accepts   map[string]Accept    // by key in the Store
	touched   map[string]uint64    // by group; see Touch
	listeners listeners
	loaded    chan struct{} // closed by the first Replace
}

// NewDecisions returns empty decisions that are not loaded.
func NewDecisions() *Decisions {
	return &Decisions{Silences: silence.NewSet(), acks: map[string]StoredAck{}, accepts: map[string]Accept{}, touched: map[string]uint64{}, listeners: listeners{}, loaded: make(chan struct{})}
}

// Replace replaces all decisions with the stored values, by key. The error reports unreadable values, which are ignored.
func (d *Decisions) Replace(values map[string][]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var silences []silence.Silence
	var failed error
	clear(d.acks)
	clear(d.accepts)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s, err := d.decode(key, values[key])
		switch {
		case err != nil:
			failed = err
		case s != nil:
			silences = append(silences, *s)
		}
	}
	d.Silences.Replace(silences)
	select {
	case <-d.loaded:
	default:
		close(d.loaded)
	}
	d.listeners.raise()
	return failed
}

// Put stores the new value of a key. It changes nothing if the value is unreadable.
func (d *Decisions) Put(key string, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.decode(key, value)
	if err != nil {
		return err
	}
	if s != nil {
		d.Silences.Put(*s)
	}
	d.listeners.raise()
	return nil
}

// Delete removes a key.
func (d *Decisions) Delete(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.acks, key)
	delete(d.accepts, key)
	if id, ok := strings.CutPrefix(key, silenceKey); ok {
		d.Silences.Delete(id)
	}
	d.listeners.raise()
}

// decode returns the silence of a value, or keeps its acknowledgement or new normal.
func (d *Decisions) decode(key string, value []byte) (*silence.Silence, error) {
	if id, ok := strings.CutPrefix(key, silenceKey); ok {
		var s silence.Silence
		if err := json.Unmarshal(value, &s); err != nil {
			return nil, fmt.Errorf("decode silence %s: %w", id, err)
		}
		if err := s.Matchers.Validate(); err != nil { // it would silence every alert
			return nil, fmt.Errorf("decode silence %s: %w", id, err)
		}
		s.ID = id
		return &s, nil
	}
	if strings.HasPrefix(key, acceptKey) {
		var a Accept
		if err := json.Unmarshal(value, &a); err != nil {
			return nil, fmt.Errorf("decode new normal %s: %w", key, err)
		}
		d.accepts[key] = a
		return nil, nil
	}
	var a StoredAck
	if err := json.Unmarshal(value, &a); err != nil {
		return nil, fmt.Errorf("decode acknowledgement %s: %w", key, err)
	}
	if key != AckStoreKey(a.Group) {
		return nil, fmt.Errorf("decode acknowledgement %s: it is of group %.200q", key, a.Group)
	}
	if _, ok := d.acks[key]; ok || len(d.acks) < MaxAcks {
		d.acks[key] = a
	}
	return nil, nil
}

// Touch says that people have decided something about the problem of a group, so that its messages must be edited.
func (d *Decisions) Touch(group string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.touched) > MaxAcks {
		clear(d.touched)
	}
	d.touched[group]++
	d.listeners.raise()
}

// listen returns a signal that every change raises, until stop is called.
func (d *Decisions) listen() (changed signal, stop func()) {
	if d == nil {
		return newSignal(), func() {}
	}
	return d.listeners.add(&d.mu)
}

// Loaded returns a channel that is closed once Replace has been called. Until then it is unknown which decisions exist.
func (d *Decisions) Loaded() <-chan struct{} { return d.loaded }

// isLoaded reports whether the decisions are known.
func (d *Decisions) isLoaded() bool {
	select {
	case <-d.loaded:
		return true
	default:
		return false
	}
}

// Acks returns all acknowledgements, including withdrawn ones and those of ended incidents.
func (d *Decisions) Acks() []StoredAck {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.acks))
}

// Accepts returns all new normals by their keys in the Store.
func (d *Decisions) Accepts() map[string]Accept {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.accepts)
}

// ack returns the acknowledgement of an incident of a group, or nil. known is the one that the incident has already: it
// stays valid when the incident's oldest alert is removed from the group, which changes Group.Since.
func (d *Decisions) ack(group string, incident time.Time, known *alerts.Ack) *alerts.Ack {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.acks) == 0 {
		return nil
	}
	a, ok := d.acks[AckStoreKey(group)]
	if !ok || a.Withdrawn || a.Group != group {
		return nil
	}
	if a.Incident.Equal(incident) || known != nil && a.Incident.Equal(known.Incident) {
		return &a.Ack
	}
	return nil
}

// touches returns how often Touch was called for a group.
func (d *Decisions) touches(group string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.touched[group]
}

// decide sets the silences and acknowledgements of all open groups, and reports whether any has changed. Alerts that have
// ended keep the silence that was active at their end.
func (g *groups) decide(now time.Time) bool {
	d := g.decisions
	if d == nil || !d.isLoaded() {
		return false
	}
	if v := d.Silences.Version(); v != g.silences || !g.nextSilence.IsZero() && !now.Before(g.nextSilence) {
		g.silences, g.nextSilence = v, d.Silences.Next(now)
		g.epoch++
	}
	changed := false
	for _, o := range g.open {
		for _, a := range o.alerts {
			if a.State != alerts.Firing || a.epoch == g.epoch {
				continue
			}
			a.epoch = g.epoch
			changed = o.mute(a, d.Silences.Find(now, a.Name, a.Matchable()), a.Inhibitor) || changed
		}
		if n := d.touches(o.key); n != o.touched {
			o.touched, changed = n, true
			o.decided()
		}
		if ack := d.ack(o.key, o.since(), o.ack); !sameAck(ack, o.ack) {
			o.ack = ack
			o.decided()
			changed = true
		}
	}
	return changed
}

// mute sets who mutes a, an alert of g, and reports whether that has changed.
func (g *openGroup) mute(a *trackedAlert, s *silence.Silence, by *alerts.Inhibitor) bool {
	same := sameSilence(s, a.Silence) && (by == nil) == (a.Inhibitor == nil) && (by == nil || by.ID == a.Inhibitor.ID)
	a.Silence, a.Inhibitor = s, by
	if !same {
		a.Revision++
		g.decided()
	}
	return !same
}

// decided records a change of a silence, an inhibitor or an acknowledgement.
func (g *openGroup) decided() {
	g.version++
	g.decisions++
	g.dirty, g.settled = true, false
}

func sameSilence(a, b *silence.Silence) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.EndsAt.Equal(b.EndsAt) && a.CreatedBy == b.CreatedBy && a.Comment == b.Comment
}

func sameAck(a, b *alerts.Ack) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Incident.Equal(b.Incident) && a.By == b.By && a.At.Equal(b.At)
}

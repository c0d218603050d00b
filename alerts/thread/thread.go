// Package thread is what receivers have in common whose messages cannot be edited, such as Microsoft Teams and e-mail. An incident is a
// thread of messages: the first one, and one for each change that matters, which says what has changed and names the first one.
//
//	Group ──Threads.Notify──> Message ──> msteams, email
//	              └─ record: what readers know, by group (sent)
//
// A receiver that answers too late may have accepted a message, so a message may arrive twice. Then it has the same ID.
package thread

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/sent"
	"github.com/llmtap/llmtap/alerts/wording"
)

// Pace is that of receivers with threads: changed numbers alone are not worth a message.
var Pace = alerts.Pace{NewsOnly: true, Decisions: true}

// Threads are the messages of a receiver. They are safe for concurrent use; calls are serialized.
type Threads struct {
	opts    alerts.NotifierOptions
	mu      sync.Mutex // guards records
	records *sent.Set[record]
}

// A record is the state of the thread of a group.
type record struct {
	First     string    `json:"first"`               // ID of the first message
	Last      string    `json:"last,omitempty"`      // ID of the latest message
	Subject   string    `json:"subject"`             // of all messages
	SentAt    time.Time `json:"sent_at,omitzero"`    // wall time of the first message
	Count     int       `json:"count"`               // messages sent
	Doubt     string    `json:"doubt,omitempty"`     // ID of a message that may have arrived, while Count is 0
	UpdatedAt time.Time `json:"updated_at,omitzero"` // stream time of the latest state sent
	wording.Told
}

// New returns the threads of the receiver with this destination, of a kind.
func New(kind, destination string, o alerts.NotifierOptions) *Threads {
	return &Threads{opts: o, records: sent.New[record](o.Store, kind, destination+"\n", o.Logger)}
}

// Notify calls send with the message about the state of g, unless readers know it.
func (t *Threads) Notify(ctx context.Context, g alerts.Group, send func(context.Context, *Message) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	g = wording.Permitted(g.WithProblem(t.opts.Problem), false)
	r, ok := t.records.Load(ctx, g.Key)
	if !ok || g.Since().After(r.UpdatedAt) { // no message, or those of an earlier incident
		r = record{First: digest(g.Key, g.Since().UnixNano()), Subject: subject(&g)}
	}
	if r.Count == 0 && r.Doubt == "" && (g.Muted() || g.Missed) {
		return nil // readers do not know of it
	}
	known := mark.Tell(g, r.Told)
	m := newMessage(&g, &r, t.opts.Access)
	if m == nil {
		return nil
	}
	m.ID = digest(r.First, r.Count, known, g.Repeat)
	if r.Count == 0 && (r.Doubt == "" || r.Doubt == m.ID) {
		r.Doubt, m.ID = m.ID, r.First
	}
	err := send(ctx, m)
	if err != nil {
		if retry, ok := errors.AsType[*alerts.RetryError](err); ok && retry.Doubt && r.Count == 0 {
			r.UpdatedAt = g.Updated()
			t.records.Save(ctx, g.Key, r)
		}
		return err
	}
	if r.Count == 0 {
		r.SentAt = time.Now().UTC()
	}
	r.Last, r.Told, r.UpdatedAt, r.Doubt = m.ID, known, g.Updated(), ""
	r.Count++
	t.records.Save(ctx, g.Key, r)
	return nil
}

// digest returns 32 hex digits that identify values.
func digest(values ...any) string {
	b, err := json.Marshal(values)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:16])
}

// subject returns what g is about, without numbers and severity, which change.
func subject(g *alerts.Group) string {
	a := g.Worst()
	what := a.Name
	if len(a.Evidence.Shares) > 0 {
		what = wording.Failure(a.Evidence.Lead())
	}
	if s := wording.ShortSubject(a); s != what {
		what = s + ": " + what
	}
	return wording.OneLine(what, maxSubject)
}

// reference names the first message of an incident, for example "checkout-agent/planner: StageFailureRate, first sent 2026-05-04 03:02 UTC".
func (r *record) reference() string {
	if r.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%s, first sent %s", r.Subject, r.SentAt.Format("2006-01-02 15:04 UTC"))
}

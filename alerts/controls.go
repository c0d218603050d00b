package alerts

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/llmtap/llmtap/alerts/silence"
)

// An Ack is a person's statement that they handle an incident. It ends with the incident.
type Ack struct {
	Group    string    `json:"group"`    // Group.Key
	Incident time.Time `json:"incident"` // Group.Since when it was acknowledged
	By       string    `json:"by"`       // id of the person, such as a Slack user id
	ByName   string    `json:"by_name"`  // name of the person; may be empty
	At       time.Time `json:"at"`
}

// An Actor is who acts on alerts, and where.
type Actor struct {
	ID   string // such as a Slack user id, or user@host
	Name string // may be empty
	Via  string // slack or api
}

// An Inhibitor is the alert that hides another one.
type Inhibitor struct {
	ID      string // Alert.ID
	Group   string // Group.Key
	Name    string // Alert.Name
	Summary string
	URL     string `json:"-"` // link to the notification about it, set by a notifier
}

// Hidden are the alerts that an alert hides.
type Hidden struct {
	Alerts int    // the highest number at a time
	Worst  []Part // of the highest severity and with the most failures, at most 5
}

// A Part is an alert that another one hides.
type Part struct {
	ID     string // Alert.ID
	Name   string // Alert.Name
	Labels map[string]string
	Failed uint64 // failed calls; 0 if the alert does not count them
	Calls  uint64
}

// Muted reports whether people are not notified of the alert.
func (a *Alert) Muted() bool { return a.Silence != nil || a.Inhibitor != nil }

// ErrNoSilence is returned for the id of a silence that does not exist.
var ErrNoSilence = errors.New("there is no such silence")

// An InvalidError is the reason why a silence, or a decision about a problem, cannot be stored.
type InvalidError struct {
	What string // "": a silence
	Err  error
}

func (e *InvalidError) Error() string {
	return "invalid " + cmp.Or(e.What, "silence") + ": " + e.Err.Error()
}
func (e *InvalidError) Unwrap() error { return e.Err }

// Controls is what people may do to alerts. Every process of the role sees a change within a second. Each call is also
// stored as a row of alert_actions. An error means that nothing has changed.
type Controls interface {
	// Group returns the open group with this GroupID; false if its incident has ended.
	Group(ctx context.Context, id string) (Group, bool, error)
	// Expr returns the expression of the rule of an alert, or "" if the rule no longer exists.
	Expr(a *Alert) string
	// Acknowledge stores an acknowledgement. The first one of an incident wins; a.At may be zero.
	Acknowledge(ctx context.Context, a Ack, via string) error
	// Unacknowledge removes the acknowledgement of an incident, if any.
	Unacknowledge(ctx context.Context, group string, incident time.Time, by Actor) error
	// AddSilence stores a new silence. Adding one with an existing id has no effect. If the id is empty, it is generated.
	// group is the key of the group that the silence is for, if any.
	AddSilence(ctx context.Context, s silence.Silence, group string, by Actor) (silence.Silence, error)
	// ExpireSilence ends a silence now. Ending an expired one has no effect. The error is ErrNoSilence if there is none.
	ExpireSilence(ctx context.Context, id string, by Actor) error
	// Refuse stores that an action was not done, for example because the person is not allowed to do it.
	Refuse(ctx context.Context, action, group, reason string, by Actor) error
	// Record stores that somebody did something that changed nothing, such as to look at a query.
	Record(ctx context.Context, action, group, comment string, by Actor) error
	// Silences returns the silences that have not expired, sorted by start.
	Silences() []silence.Silence
}

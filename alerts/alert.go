package alerts

import (
	"context"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// State of an alert, in Prometheus's words.
type State string

// The states that are notified.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// An Alert is one instance of an alert rule: the rule's name, the labels of its series, and what the tallies know.
type Alert struct {
	Name        string            // alert rule, e.g. StageFailureRate
	Labels      map[string]string // of the series, and the rule's own (severity)
	Annotations map[string]string // expanded
	State       State
	Value       float64 // of the rule's expression at the last evaluation
	Peak        float64
	StartsAt    time.Time // stream time
	EndsAt      time.Time // zero while firing
	UpdatedAt   time.Time // stream time of the evaluation
	// TriggeredAt is the stream second of the first failed call that only the first firing evaluation counted: the one
	// that made the rule true, or one before it.
	TriggeredAt time.Time
	FoundLate   bool // it fired more than a minute before an engine that leads evaluated that time, e.g. after an outage
	// Missing says what cannot be had now beside the evidence, which is of the tallies: such as the calls themselves while
	// ClickHouse is down. "" is nothing.
	Missing  string
	Evidence Evidence
}

// Evidence answers why, whose change and where, from exact tallies of the rule's window: of the last evaluation that
// found the breach while the alert fires, of its peak once it is resolved.
type Evidence struct {
	Window   time.Duration
	Failed   uint64
	Calls    uint64
	Shares   []Share           // of Failed, largest first
	Versions []VersionCount    // by service version, first seen first
	Example  *analyzer.Example // of the largest share
	// More are up to two other conversations: of further shares that matter, then of the largest.
	More []*analyzer.Example
}

// Whose is the service version that showed the largest share first, and the newest before it that did not: what the
// ledger remembers, else what the window shows. "" is not known.
func (ev *Evidence) Whose() (first, lastClean string) {
	if len(ev.Shares) > 0 && ev.Shares[0].FirstVersion != "" {
		return ev.Shares[0].FirstVersion, ev.Shares[0].LastClean
	}
	for _, v := range ev.Versions { // first seen first
		if v.Failed > 0 {
			return v.Version, lastClean
		}
		lastClean = v.Version
	}
	return "", ""
}

// A Share is how many of the failed calls one cause and root cause explain.
type Share struct {
	Cause, RootCause string
	Failed           uint64
	Fix              string

	// What the ledger remembers, for weeks, of calls of these stages that failed so. Empty when it does not know.
	FirstVersion string    // service version of the first one
	FirstAt      time.Time // its stream time
	LastClean    string    // the newest other version that the stage had made calls with before it
}

// A VersionCount is the calls of one service version in the window.
type VersionCount struct {
	Version       string
	Failed, Calls uint64
	FirstSeen     time.Time // stream time of the first call that llmtap counted; zero if it no longer knows
}

// A Group is alerts that share one message.
type Group struct {
	Key    string // stable: the rule and its grouping labels
	Alerts []Alert
	Repeat bool // nothing is new: a reminder that it still fires
}

// A Notifier delivers alert groups: the first call for a key posts, later ones update in place. A *RetryError means
// "later"; any other error is final.
type Notifier interface {
	Notify(ctx context.Context, g Group) error
}

// A Paced notifier is told at other times than suit a message that is updated in place.
type Paced interface {
	Notifier
	Pace() Pace
}

// A Pace says when a notifier is told.
type Pace struct {
	// Every, if positive, is how long after the last time a group that fires is told again, with news or without, also
	// after a final error: for a receiver that takes silence for the end. There are no reminders then.
	Every time.Duration
	// NewsOnly leaves out changes of numbers alone: for a receiver that shows each call as a message of its own.
	NewsOnly bool
	// Numbers is the shortest time between two changes of numbers alone, of all groups together: for a receiver that takes
	// only so many, and has to have room for news.
	Numbers time.Duration
}

// RetryError is a delivery that may succeed later.
type RetryError struct {
	After time.Duration // 0: the caller's own back-off
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

package web

import (
	"context"
	"time"
)

// Incidents are alerts with their evidence, and the meaning of causes. They do not need ClickHouse.
type Incidents interface {
	// Incident returns an alert that fires, or that ended a short time ago. For another id, the error wraps ErrNotFound.
	Incident(ctx context.Context, id string) (*Incident, error)
	// Meaning returns what a cause, root cause, rule or signal is, what it means, as a phrase, and the fix. All are empty if unknown.
	Meaning(id string) (kind, phrase, fix string)
	// ProviderMessage returns the message in an error text of a provider.
	ProviderMessage(errorText string) string
	// Commands returns shell commands that investigate the failures with these labels since a time. The ids of an example may be
	// empty.
	Commands(labels map[string]string, since time.Time, exchange, conversation string) []string
}

// An Incident is an alert and its evidence.
type Incident struct {
	Alert
	Stored      bool          // only the row in ClickHouse is known
	Value       float64       // of the rule's expression
	Window      time.Duration // before StartsAt, in which calls were counted
	Rules       []string      // of the findings that the alert counts; empty if it counts failed calls
	Causes      []CauseCount  // largest first
	Failed      uint64        // calls or findings in the window
	Calls       uint64
	FirstAt     time.Time // first call of FirstBad with the failure; zero if unknown
	LastFailed  time.Time
	CallsSince  uint64 // after LastFailed
	Description string // of the rule
	Exchange    string // example of the first cause; empty if there is none
	Commands    []string
}

// A CauseCount is the number of failures with one cause.
type CauseCount struct {
	ID   string // root cause if it is known, otherwise the cause
	Text string // in words
	N    uint64
}

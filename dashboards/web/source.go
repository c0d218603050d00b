package web

import (
	"context"
	"errors"
	"time"
)

// ErrUnavailable is wrapped by errors of sources that do not answer now, for example because ClickHouse is down.
var ErrUnavailable = errors.New("not available")

// ErrNotFound is wrapped by errors about an id that no source knows.
var ErrNotFound = errors.New("not found")

// A Querier runs read-only statements on ClickHouse. Values are only passed as bound parameters: the value of {name:Type} in
// sql is params[name], in ClickHouse's text format.
type Querier interface {
	Query(ctx context.Context, sql string, params map[string]string) (*Table, error)
}

// A Table is the result of a statement.
type Table struct {
	Columns   []Column
	Rows      [][]any // one value per column; nil for NULL, time.Time in UTC for times
	Truncated bool    // there are more rows
}

// A Column is a column of a Table.
type Column struct{ Name, Type string }

// Alerts are the rules and their state. Methods that change something are called only for a request with a valid session.
type Alerts interface {
	// Firing returns the alerts that fire, worst first, hidden ones included.
	Firing(ctx context.Context) ([]Alert, error)
	// Changes returns a channel that receives a value after a change of Firing. It is closed when ctx ends.
	Changes(ctx context.Context) <-chan struct{}
}

// An Alert is the state of one alert.
type Alert struct {
	ID        string
	Name      string // of its rule
	Severity  string // critical or page, error, warning, info
	Labels    map[string]string
	Subject   string // service and stage, or the provider
	Summary   string // for example "43 of 98 calls failed"
	Why       string // main cause in words; empty if unknown
	Cause     string // id of the main root cause, or else of the cause
	Fix       string
	FirstBad  string // first service version that shows the failure
	LastClean string
	StartsAt  time.Time
	EndsAt    time.Time // zero while it fires
	UpdatedAt time.Time
	Acked     string   // who acknowledged it; empty: nobody
	Silenced  *Silence // nil: it is not silenced
	Part      string   // the alert that hides this one, in words; empty: none
	Muted     bool     // people are not notified
}

// critical reports whether the alert is of the highest severity: alerts.Alert.Rank gives both names the same.
func (a *Alert) critical() bool { return a.Severity == "critical" || a.Severity == "page" }

// Tallies are counts of the event stream. They do not need ClickHouse, and reach back a few hours.
type Tallies interface {
	// Range evaluates a PromQL expression at every step.
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error)
}

// A Series is one line of a Range.
type Series struct {
	Labels map[string]string
	Points []Point
}

// A Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Health reports what does not work.
type Health interface {
	// Parts returns the parts of the collector, and the reason why one does not work.
	Parts(ctx context.Context) []Part
}

// A Part is a part of the collector.
type Part struct {
	Name   string
	Reason string // why it does not work; empty if it works
}

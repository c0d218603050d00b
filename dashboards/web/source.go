package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// ErrUnavailable is wrapped by errors of sources that do not answer now, for example because ClickHouse is down.
var ErrUnavailable = errors.New("not available")

// ErrTooMuch is wrapped by errors of statements that need more memory than there is.
var ErrTooMuch = fmt.Errorf("%w: this needs more memory than there is", ErrUnavailable)

// ErrNoStore is wrapped by errors of a collector that has no ClickHouse. Their texts say how to add it.
var ErrNoStore = errors.New("there is none on this machine")

// ErrNotFound is wrapped by errors about an id that no source knows.
var ErrNotFound = errors.New("not found")

// A Query runs a read-only statement on ClickHouse. Values are only passed as bound parameters: the value of {name:Type} in sql is
// params[name], in ClickHouse's text format.
type Query func(ctx context.Context, sql string, params map[string]string) (*Table, error)

// A Table is the result of a statement.
type Table struct {
	Columns   []Column
	Rows      [][]any // one value per column; nil for NULL, time.Time in UTC for times
	Truncated bool    // there are more rows
}

// A Column is a column of a Table.
type Column struct{ Name, Type string }

// Firing returns the alerts that fire, worst first, hidden ones included.
type Firing func(ctx context.Context) ([]Alert, error)

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
	Kind      string // of Cause: root cause, cause, rule or signal
	Fix       string
	FirstBad  string // first service version that shows the failure
	LastClean string
	StartsAt  time.Time
	EndsAt    time.Time // zero while it fires
	UpdatedAt time.Time
	Acked     string   // who acknowledged it; empty: nobody
	Silenced  *Silence // nil: it is not silenced
	Part      string   // the alert that hides this one, in words; empty: none
	Problem   string   // id of the problem that it is about; empty: none
	Muted     bool     // people are not notified
}

// severe reports whether a severity is the highest: alerts.Alert.Rank gives both names the same.
func severe(severity string) bool { return severity == "critical" || severity == "page" }

// URL returns the page about the alert: that of its problem, if it is about one.
func (a Alert) URL() string {
	if a.Problem != "" {
		return "/problem/" + url.PathEscape(a.Problem)
	}
	return "/incident/" + url.PathEscape(a.ID)
}

// Tallies evaluate a PromQL expression at every step over counts of the event stream. They do not need ClickHouse, and reach back a
// few hours.
type Tallies func(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error)

// A Series is one line of the result of Tallies.
type Series struct {
	Labels map[string]string
	Points []Point
}

// A Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Usual returns what is usual of measures in the hours of these times, by measure. An empty label is any; of several stages, only what
// can be added up is known. A measure of which nothing is known is not in the result.
type Usual func(ctx context.Context, service, environment, stage string, at []time.Time, measures ...string) (map[string][]Band, error)

// A Band is a usual range; zero if it is not known.
type Band struct{ Low, High float64 }

// A Way is a way to send calls to the collector.
type Way struct {
	Name string
	Note string // what else one must know; may be empty
	Code string // to copy
}

// A Part is a part of the collector, and the reason why it does not work.
type Part struct {
	Name   string
	Reason string // why it does not work; empty if it works
}

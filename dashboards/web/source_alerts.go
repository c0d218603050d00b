package web

import (
	"context"
	"time"
)

// BacktestLimit bounds the time for one Backtest.
const BacktestLimit = 10 * time.Second

// Controls are the alert rules, and what people do about alerts. by is the name of the person. Errors are shown to them. Methods that
// change something are called only for a request with a valid session.
type Controls interface {
	// Rules returns the rules: those that fire first, then those that may soon.
	Rules(ctx context.Context) ([]Rule, error)
	// Silences returns the silences that have not expired, sorted by start.
	Silences(ctx context.Context) ([]Silence, error)
	// Acknowledge acknowledges the incident of the alert with an id, or withdraws that.
	Acknowledge(ctx context.Context, id, by string, withdraw bool) error
	// SilenceAlert silences the group of the alert with an id.
	SilenceAlert(ctx context.Context, id string, until time.Time, comment, by string) error
	// AddSilence silences the alerts that match all matchers, such as service="checkout".
	AddSilence(ctx context.Context, matchers []string, until time.Time, comment, by string) error
	// Expire ends a silence now.
	Expire(ctx context.Context, id, by string) error
	// Elsewhere says where else alerts are silenced, and whether silences made here have no effect; it is empty if there is no such place.
	Elsewhere() (text string, only bool)
	// Backtest evaluates the rules with a name over stored calls, for at most BacktestLimit.
	Backtest(ctx context.Context, rule string, from, to time.Time) (*Backtest, error)
}

// A Rule is an alert rule at its last evaluation.
type Rule struct {
	Name, Severity string
	Expr           string // PromQL
	For            time.Duration
	Measured       string  // PromQL of Value
	Op             string  // of the first comparison with a number; empty if there is none
	Threshold      float64 // that number
	Others         bool    // there are further conditions
	Value          float64 // nearest to the threshold, or farthest beyond it
	Series         int     // number of values; 0: there is none
	Labels         map[string]string
	Pending        int // alerts that fire if the expression stays true
	Firing         int
	Evaluated      time.Time // zero: not yet
	Health         bool      // the rule is about llmtap itself, which cannot be replayed
}

// A Silence suppresses the notifications of alerts.
type Silence struct {
	ID, By, Comment string
	Matchers        []string
	From, To        time.Time
	Matched         []Alert // firing alerts
}

// A Backtest is what the rules with a name would have done.
type Backtest struct {
	Calls, Failed int64
	Values        []Series // nearest to the threshold, of each rule that has one; the label severity is the rule's
	Thresholds    []Threshold
	Alerts        []BacktestAlert
	Until         time.Time // earlier than asked if the time was too short for the rest
	NotTested     string    // why the rule cannot be replayed
}

// A Threshold is a comparison of a value with a number.
type Threshold struct {
	Op    string // such as >=
	Value float64
}

// Met reports whether the comparison of v is true.
func (t Threshold) Met(v float64) bool {
	switch t.Op {
	case ">":
		return v > t.Value
	case ">=":
		return v >= t.Value
	case "<":
		return v < t.Value
	case "<=":
		return v <= t.Value
	case "==":
		return v == t.Value
	case "!=":
		return v != t.Value
	}
	return false
}

// nearer reports whether the comparison of a is nearer to being true than that of b, or a farther beyond the threshold.
func (t Threshold) nearer(a, b float64) bool {
	switch t.Op {
	case ">", ">=":
		return a > b
	case "<", "<=":
		return a < b
	}
	return t.Met(a) && !t.Met(b)
}

// A BacktestAlert is an alert that would have fired.
type BacktestAlert struct {
	Severity, Subject, Summary string
	From, To                   time.Time // To is zero if it still fires at the end
	Exchange                   string    // example; may be empty
}

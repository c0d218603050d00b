package sinks

import (
	"context"
	"errors"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// A Batch is the set of rows of one write.
type Batch struct {
	Exchanges []analyzer.Exchange
	Findings  []analyzer.Finding
	ToolCalls []analyzer.ToolCall
	Contents  []analyzer.Content
	History   []analyzer.HistoryEntry
	Runs      []analyzer.Run
	Alerts    []Alert
	Actions   []AlertAction
	Audit     []AuditEntry

	texts arena // bodies of Contents that were copied by Append
}

// An Alert is the row of one alert instance. It is replaced whenever the alert changes.
type Alert struct {
	ID         string // 32 hex digits: a hash of name, labels and start
	Version    uint64 // version of the row: time of the change in Unix nanoseconds
	Name       string // name of the rule, e.g. StageFailureRate
	Severity   string
	Labels     map[string]string
	State      string // firing or resolved
	StartedAt  time.Time
	EndedAt    time.Time // zero while firing
	Value      float64   // value at the last evaluation
	Peak       float64
	Failed     uint64 // exact number of failed calls in the window
	Calls      uint64
	Shares     map[string]uint64 // failed calls by root cause, or by cause if there is none
	FirstBad   string            // first service version that shows the failure; empty if unknown
	LastClean  string
	Example    string // id of an exchange
	Summary    string
	NotifiedAt time.Time
	// SilenceID and SilencedBy are the active silence and its author, or those at the end; InhibitedBy is the id of the alert
	// that hides this one. They are empty if there is none.
	SilenceID, SilencedBy, InhibitedBy string
	Problem                            string // id of the problem that it is about; empty if it is about none
}

// An AlertAction is the row of one action of a person on alerts.
type AlertAction struct {
	ID        string
	At        time.Time
	Action    string // acknowledge, unacknowledge, silence, change_silence, unsilence, show_query, assign, resolve, ignore, reopen or regress
	Refused   bool   // it was not done; the comment says why
	Name      string // rule of the group
	Service   string // of the group or of the matchers; empty if it is not one service
	Group     string // key of the group; empty if the action is on no group
	Incident  time.Time
	SilenceID string
	Matchers  string    // of the silence
	EndsAt    time.Time // end of the silence; zero if there is none
	Actor     string
	ActorName string
	Via       string // slack or api; llmtap for regress
	Comment   string // of the silence, or the reason of a refusal
}

// An AuditEntry is the row of what somebody did. Its fields are those of access.Record.
type AuditEntry struct {
	ID       string
	At       time.Time
	Person   string
	Verified bool
	Subject  string
	Role     string
	Action   string
	Target   string
	Detail   string
	Route    string
	Via      string
	Address  string
	Outcome  string
	Status   int // of HTTP; 0 if it was none
}

// A Sink stores batches. Write stores all rows of b or returns an error: a *RetryError if the same batch can be written
// again later, a *RowError if a table refuses some of the rows, or any other error if the sink can no longer store
// anything. Writing a batch twice must not duplicate rows, because NATS delivers at least once. Write does not retain
// b. Close may be called twice.
type Sink interface {
	Write(ctx context.Context, b *Batch) error
	Close() error
}

// A RetryError is a temporary error of Write: the same batch may be written again later.
type RetryError struct {
	Err  error
	Hint string // action required from an operator; empty if the error resolves itself
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// A RowError is an error of Write that may be caused by some rows of a table.
type RowError struct {
	Table string
	Err   error
}

func (e *RowError) Error() string { return e.Err.Error() }
func (e *RowError) Unwrap() error { return e.Err }

// ErrClosed is returned by Write after Close.
var ErrClosed = errors.New("sink is closed")

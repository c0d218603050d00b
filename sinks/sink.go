package sinks

import (
	"context"
	"errors"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// A Batch contains the rows of one write.
type Batch struct {
	Exchanges []analyzer.Exchange
	Findings  []analyzer.Finding
	ToolCalls []analyzer.ToolCall
	Contents  []analyzer.Content
	History   []analyzer.HistoryEntry
	Runs      []analyzer.Run
	Alerts    []Alert
}

// An Alert is one alert instance. Its row is replaced whenever the alert changes.
type Alert struct {
	ID         string // 32 hex digits: hash(alert, labels, started at)
	Version    uint64 // Unix nanoseconds of the change; version of the row
	Name       string // StageFailureRate
	Severity   string
	Labels     map[string]string
	State      string // firing, resolved
	StartedAt  time.Time
	EndedAt    time.Time // zero while firing
	Value      float64   // at the last evaluation
	Peak       float64
	Failed     uint64 // failed calls in the window, exact
	Calls      uint64
	Shares     map[string]uint64 // failed calls by root cause, or by cause if there is none
	FirstBad   string            // first service version that shows the failure; empty if unknown
	LastClean  string
	Example    string // exchange id
	Summary    string
	NotifiedAt time.Time
}

// A Sink stores batches. Write stores all rows of b or returns an error: a *RetryError if the same batch can be written
// again later, a *RowError if one table refuses some of the rows, any other error if the sink cannot store anything more.
// Writing a batch twice must not duplicate rows, as NATS delivers at least once. Write does not keep b. Close may be
// called twice.
type Sink interface {
	Write(ctx context.Context, b *Batch) error
	Close() error
}

// A RetryError is a temporary error of Write: the same batch may be written again later.
type RetryError struct {
	Err  error
	Hint string // action required from an operator; empty if the error goes away on its own
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

// ErrClosed is the error of Write after Close.
var ErrClosed = errors.New("sink is closed")

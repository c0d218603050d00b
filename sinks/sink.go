package sinks

import (
	"context"
	"errors"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// A Batch is rows to store in one go.
type Batch struct {
	Exchanges []analyzer.Exchange
	Findings  []analyzer.Finding
	ToolCalls []analyzer.ToolCall
	Contents  []analyzer.Content
	History   []analyzer.HistoryEntry
	Runs      []analyzer.Run
	Alerts    []Alert
}

// Rows is the number of rows of all tables in b.
func (b *Batch) Rows() int {
	return len(b.Exchanges) + len(b.Findings) + len(b.ToolCalls) + len(b.Runs) + len(b.Contents) + len(b.History) + len(b.Alerts)
}

// An Alert is one alert instance: one row from its start to its end, written anew as it changes.
type Alert struct {
	ID         string // 32 hex digits: hash(alert, labels, started at)
	Version    uint64 // Unix nanoseconds of the change; the row's version
	Name       string // StageFailureRate
	Severity   string
	Labels     map[string]string
	State      string // firing, resolved
	StartedAt  time.Time
	EndedAt    time.Time // zero while firing
	Value      float64   // at the last evaluation
	Peak       float64
	Failed     uint64 // in the window, exact
	Calls      uint64
	Shares     map[string]uint64 // root cause, else cause -> failed calls
	FirstBad   string            // first service version that shows it; "" unknown
	LastClean  string
	Example    string // exchange id
	Summary    string
	NotifiedAt time.Time
}

// A Sink stores batches. Write stores all of b or returns an error: a *RetryError when the same batch may be stored later,
// a *RowError when it never will but the rest may without some of its rows, any other when nothing more will be stored.
// Writing the same batch twice must not double anything, because NATS delivers at least once. Write does not keep b.
// Close may be called twice.
type Sink interface {
	Write(ctx context.Context, b *Batch) error
	Close() error
}

// A RetryError is an error of Write that may pass: the same batch may be written again later.
type RetryError struct {
	Err  error
	Hint string // what an operator must do first; empty when it passes by itself
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// A RowError is an error of Write that the rows of one table cause, not all of them as far as anybody knows.
type RowError struct {
	Table string
	Err   error
}

func (e *RowError) Error() string { return e.Err.Error() }
func (e *RowError) Unwrap() error { return e.Err }

// ErrClosed is what Write returns after Close.
var ErrClosed = errors.New("sink is closed")

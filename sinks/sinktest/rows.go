package sinktest

import (
	"time"

	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sample"
)

// Start is the time of the first row of Rows.
var Start = time.Date(2026, 11, 20, 9, 30, 0, 123456789, time.UTC)

// Rows returns n rows of every table, numbered from first. The same numbers always produce the same rows.
func Rows(first, n int) *sinks.Batch { return sample.Rows(Start, first, n) }

// Later changes the rows of b to later versions and returns b.
func Later(b *sinks.Batch) *sinks.Batch { return sample.Later(b) }

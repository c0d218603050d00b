// Package scaletest fills a ClickHouse with the rows of a large fleet, which the engine generates itself.
package scaletest

import (
	"fmt"
	"strings"
	"time"
)

const (
	days = 30 // covered by the exchanges

	chunk             = 50_000  // exchanges per insert
	batch             = 10_000  // exchanges of the last insert
	conversationChunk = 10_000  // conversations per insert of messages
	withMessages      = 100_000 // conversations whose messages are stored
)

// Fill generates n exchanges in the 30 days before now, their findings, tool calls and runs, and the messages and responses of the
// newest 100,000 conversations, oldest first, in inserts as large as memory allows. The last hundredth of each insert of exchanges
// is stored twice, as after a crash. As in production, the last insert computes no skip indexes, which rows have only once they are
// merged. exec runs a statement; logf receives the progress.
func Fill(n int, now time.Time, exec func(sql string) error, logf func(format string, args ...any)) error {
	return FillNewest(n, n, now, exec, logf)
}

// FillNewest is like Fill, but generates only the newest of the n exchanges.
func FillNewest(newest, n int, now time.Time, exec func(sql string) error, logf func(format string, args ...any)) error {
	f := filler{n: n, now: now, began: time.Now(), run: exec, logf: logf}
	for from, to := n-newest, 0; from < n; from = to {
		if to = min(from+chunk, n-batch); to <= from {
			to, f.unindexed = n, true
		}
		source := fmt.Sprintf("numbers(%d, %d)", from, to-from)
		err := f.exec(exchanges, "source", source)
		if again := (to - from) / 100; err == nil && again > 0 {
			err = f.exec(exchanges, "source", fmt.Sprintf("numbers(%d, %d)", to-again, again))
		}
		if err == nil {
			err = f.all(others, "from", 2*from, "to", 2*to) // seq
		}
		if err != nil {
			return err
		}
		f.progress("%d of %d exchanges", to, n)
	}
	end := n / 12
	first := max(end-newest/12, end-withMessages)
	f.unindexed = false
	for from, to := first, 0; from < end; from = to {
		if to = min(from+conversationChunk, end-batch/12); to <= from {
			to, f.unindexed = end, true
		}
		if err := f.all(messages, "from", from, "conversations", to-from); err != nil {
			return err
		}
		f.progress("messages of %d of %d conversations", to-first, end-first)
	}
	return nil
}

// A filler generates the rows of n exchanges.
type filler struct {
	n          int
	now, began time.Time
	run        func(sql string) error
	logf       func(format string, args ...any)
	unindexed  bool // insert without skip indexes
}

// exec runs sql with {name} replaced by the value that follows name.
func (f filler) exec(sql string, values ...any) error {
	values = append(values, "total", f.n, "begin", f.now.AddDate(0, 0, -days).UnixMilli(), "span", days*24*time.Hour.Milliseconds())
	for i := 0; i < len(values); i += 2 {
		sql = strings.ReplaceAll(sql, fmt.Sprintf("{%v}", values[i]), fmt.Sprint(values[i+1]))
	}
	if f.unindexed {
		sql = strings.Replace(sql, ")\n", ")\nSETTINGS materialize_skip_indexes_on_insert = 0\n", 1)
	}
	if err := f.run(sql); err != nil {
		return fmt.Errorf("%.200s: %w", sql, err)
	}
	return nil
}

func (f filler) all(statements []string, values ...any) error {
	for _, sql := range statements {
		if err := f.exec(sql, values...); err != nil {
			return err
		}
	}
	return nil
}

func (f filler) progress(format string, args ...any) {
	f.logf(format+" after %.0f s", append(args, time.Since(f.began).Seconds())...)
}

package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A DeadRow is a poison row, that is, a row that its table refuses while it accepts other rows.
type DeadRow struct {
	Table string
	ID    string
	Seq   uint64 // version of the row: a stream sequence, or Unix nanoseconds for messages and alerts
	Err   error  // reason for the refusal
	Row   json.RawMessage
}

const (
	// maxPoison is the maximum number of dead letters per batch and table. More refusals suggest an error in the table
	// or in llmtap, and the stream of dead letters is too small for all rows.
	maxPoison = 100
	// maxProbes is the maximum number of rows written one by one to check whether a table accepts any row.
	maxProbes = 8
)

// Hints of a RetryError for refusals that are not caused by individual rows.
const (
	hintNoRow = "the table refuses every row tried, so the table is at fault: undo the change to the table " +
		"(type, constraint, materialised view)"
	hintManyRows = "too many rows are refused for the rows to be at fault: undo the change to the table (type, constraint, materialised view), " +
		"or report the error"
)

// errNoneAccepted is returned if a table has refused all probes and has never accepted a row.
var errNoneAccepted = errors.New("the table has not accepted any row yet")

// write stores the rows of p, except for poison rows, which it returns. After a *RetryError, write must be called
// again.
//
// A refusal does not show whether the rows or the table are at fault. Therefore write first repeats a row that was
// stored before, which changes nothing. If the table also refuses that row, or every row, the table is at fault and no
// row becomes a dead letter. Otherwise the batch is bisected to isolate the poison rows, which takes about
// 2·k·log2(n/k) writes for k of n rows.
func (b *Batcher) write(ctx context.Context, p *pending) ([]DeadRow, error) {
	err := b.sink.Write(ctx, &p.rows)
	if err == nil {
		for _, t := range Tables {
			b.setAccepted(t, &p.rows)
		}
		return nil, nil
	}
	if _, ok := errors.AsType[*RowError](err); !ok {
		return nil, err
	}
	// The rows that were stored before the refusal are written again, which changes nothing.
	var dead []DeadRow
	for _, t := range Tables {
		n := t.Len(&p.rows)
		if n == 0 {
			continue
		}
		s := bisection{b: b, table: t, rows: &p.rows}
		if err := s.run(ctx, n); err != nil {
			if errors.Is(err, errNoneAccepted) {
				b.mergeFilling(p)
			}
			return nil, err
		}
		dead = append(dead, s.dead...)
	}
	return dead, nil
}

// A bisection writes the rows of one table of a batch and finds the poison rows among them.
type bisection struct {
	b     *Batcher
	table Table
	rows  *Batch
	dead  []DeadRow
}

func (s *bisection) run(ctx context.Context, n int) error {
	refused, err := s.write(ctx, 0, n)
	if err != nil || refused == nil {
		return err
	}
	if err := s.checkTable(ctx, n, refused); err != nil {
		return err
	}
	return s.bisect(ctx, 0, n, refused)
}

// write writes the rows from i to j-1. A refusal is returned as refused, not as err.
func (s *bisection) write(ctx context.Context, i, j int) (refused *RowError, err error) {
	part := s.table.slice(s.rows, i, j)
	err = s.b.sink.Write(ctx, part)
	if err == nil {
		s.b.setAccepted(s.table, part)
		return nil, nil
	}
	if refused, ok := errors.AsType[*RowError](err); ok {
		return refused, ctx.Err()
	}
	return nil, err
}

// checkTable returns nil if the table still accepts rows. It rewrites a previously accepted row or, if there is none,
// tries a few rows of this batch until one is accepted.
func (s *bisection) checkTable(ctx context.Context, n int, refused *RowError) error {
	if accepted := s.b.accepted[s.table]; accepted != nil {
		err := s.b.sink.Write(ctx, accepted)
		if _, ok := errors.AsType[*RowError](err); ok {
			return &RetryError{Err: fmt.Errorf("%w (the table also refuses a row that it accepted before)", refused), Hint: hintNoRow}
		}
		return err
	}
	probes := min(n, maxProbes)
	for k := range probes {
		i := k * n / probes
		r, err := s.write(ctx, i, i+1)
		if err != nil || r == nil {
			return err
		}
	}
	return &RetryError{Err: fmt.Errorf("%w: %w", refused, errNoneAccepted), Hint: hintNoRow}
}

// bisect finds the poison rows among the rows from i to j-1, which were refused together.
func (s *bisection) bisect(ctx context.Context, i, j int, refused *RowError) error {
	if j-i == 1 {
		if len(s.dead) == maxPoison {
			return &RetryError{Err: fmt.Errorf("more than %d rows of one batch are refused: %w", maxPoison, refused), Hint: hintManyRows}
		}
		s.dead = append(s.dead, s.deadRow(i, refused))
		return nil
	}
	mid := i + (j-i)/2
	for _, half := range [2][2]int{{i, mid}, {mid, j}} {
		refused, err := s.write(ctx, half[0], half[1])
		if err == nil && refused != nil {
			err = s.bisect(ctx, half[0], half[1], refused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *bisection) deadRow(i int, refused error) DeadRow {
	d := DeadRow{Table: s.table.Name(), Err: refused}
	d.ID, d.Seq = s.table.Key(s.rows, i)
	row := s.table.Row(s.rows, i)
	var err error
	if d.Row, err = json.Marshal(row); err != nil { // JSON cannot represent infinity and NaN
		d.Row, _ = json.Marshal(fmt.Sprintf("%+v", row))
	}
	return d
}

// setAccepted records a copy of the last row of t in rows. The rows must have been stored.
func (b *Batcher) setAccepted(t Table, rows *Batch) {
	if n := t.Len(rows); n > 0 {
		b.accepted[t] = &Batch{}
		t.append(b.accepted[t], t.slice(rows, n-1, n))
	}
}

// mergeFilling moves the filling batch into p unless p is full, because the table may accept some of the additional rows.
func (b *Batcher) mergeFilling(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.filling
	if b.full(p) || f.since.IsZero() || b.err != nil {
		return
	}
	p.rows.Append(&f.rows)
	p.size += f.size
	if f.commit != nil {
		p.commit = f.commit
	}
	f.rows.reset()
	*f = pending{rows: f.rows}
	b.freed()
}

// writeDeadLetters passes the poison rows to DeadLetter and counts them. It waits until all of them are stored, because
// the commit that follows confirms that no row is lost.
func (b *Batcher) writeDeadLetters(ctx context.Context, dead []DeadRow) error {
	for i := range dead {
		d := &dead[i]
		if b.DeadLetter != nil {
			err := b.retry(ctx, "write dead letter", func() error {
				if err := b.DeadLetter(ctx, *d); err != nil {
					return &RetryError{Err: err}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("write dead letter of %s %s: %w", d.Table, d.ID, err)
			}
		}
		b.metrics.deadLettered.WithLabelValues(d.Table).Inc()
		b.logger.Error("row refused, stored as a dead letter", "table", d.Table, "id", d.ID, "seq", d.Seq, "error", d.Err)
	}
	return nil
}

package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A DeadRow is a row that its table refuses while it takes others: a poison row.
type DeadRow struct {
	Table string
	ID    string
	Seq   uint64 // of the stream; an alert's version
	Err   error  // why it is refused
	Row   json.RawMessage
}

const (
	// maxPoison is how many rows of one batch and table may go to dead letters. More are no accident of single rows: the
	// table or the program is wrong, and dead letters have no room for a whole stream.
	maxPoison = 100
	// maxProbes is how many rows are tried one by one to learn whether a table takes any.
	maxProbes = 8
)

// Hints of a RetryError for refusals that are no single row's fault.
const (
	hintNoRow = "the table takes none of the rows that were tried, so it is not they: undo what was changed in the table " +
		"(type, constraint, materialised view); until then rows wait in the stream"
	hintManyRows = "so many rows are not poisoned by accident: undo what was changed in the table (type, constraint, " +
		"materialised view), or report the error; until then rows wait in the stream"
)

// errNoProof is wrapped by the error for a table of which no row is known to be taken.
var errNoProof = errors.New("no row of the table is known to be taken")

// write stores the rows of p but for poison rows, which it returns. A *RetryError means that it is to be called again.
//
// A refusal alone does not say whose fault it is. So a row that was stored before is written once more, which changes
// nothing: when it is refused too, or no row is taken at all, it is the table, and no row is given up. Only then is the
// batch halved until the poison rows are alone: about 2·k·log2(n/k) writes for k of n rows, and no copy of any.
func (b *Batcher) write(ctx context.Context, p *pending) ([]DeadRow, error) {
	err := b.sink.Write(ctx, &p.rows)
	if err == nil {
		for _, table := range tables {
			b.remember(table, &p.rows)
		}
		return nil, nil
	}
	if _, ok := errors.AsType[*RowError](err); !ok {
		return nil, err
	}
	// What the write stored before the refusal is written again, which changes nothing.
	var dead []DeadRow
	for _, table := range tables {
		n := p.rows.length(table)
		if n == 0 {
			continue
		}
		s := sifting{b: b, table: table, rows: &p.rows}
		if err := s.sift(ctx, n); err != nil {
			if errors.Is(err, errNoProof) {
				b.gather(p)
			}
			return nil, err
		}
		dead = append(dead, s.dead...)
	}
	return dead, nil
}

// A sifting parts the rows of one table of a batch into stored ones and poison rows.
type sifting struct {
	b     *Batcher
	table string
	rows  *Batch
	dead  []DeadRow
}

func (s *sifting) sift(ctx context.Context, n int) error {
	refused, err := s.try(ctx, 0, n)
	if err != nil || refused == nil {
		return err
	}
	if err := s.prove(ctx, n, refused); err != nil {
		return err
	}
	if n == 1 {
		s.dead = append(s.dead, s.rows.dead(s.table, 0, refused))
		return nil
	}
	return s.halve(ctx, 0, n)
}

// try writes the rows from i to j. A refusal is no error: it is returned as the first value.
func (s *sifting) try(ctx context.Context, i, j int) (refused *RowError, err error) {
	part := s.rows.part(s.table, i, j)
	err = s.b.sink.Write(ctx, part)
	if err == nil {
		s.b.remember(s.table, part)
		return nil, nil
	}
	if refused, ok := errors.AsType[*RowError](err); ok {
		return refused, ctx.Err()
	}
	return nil, err
}

// prove returns nil when the table takes rows: the one it took before, else one of this batch.
func (s *sifting) prove(ctx context.Context, n int, refused *RowError) error {
	if good := s.b.good[s.table]; good != nil {
		err := s.b.sink.Write(ctx, good)
		if _, ok := errors.AsType[*RowError](err); ok {
			return &RetryError{Err: fmt.Errorf("%w (so is a row that was stored before)", refused), Hint: hintNoRow}
		}
		return err
	}
	probes := min(n, maxProbes)
	for k := range probes {
		i := k * n / probes
		r, err := s.try(ctx, i, i+1)
		if err != nil || r == nil {
			return err
		}
	}
	return &RetryError{Err: fmt.Errorf("%w: %w", refused, errNoProof), Hint: hintNoRow}
}

// halve parts the rows from i to j, which are refused together and at least two.
func (s *sifting) halve(ctx context.Context, i, j int) error {
	mid := i + (j-i)/2
	for _, half := range [2][2]int{{i, mid}, {mid, j}} {
		refused, err := s.try(ctx, half[0], half[1])
		switch {
		case err != nil:
			return err
		case refused == nil:
			continue
		case half[1]-half[0] > 1:
			if err := s.halve(ctx, half[0], half[1]); err != nil {
				return err
			}
			continue
		}
		if len(s.dead) == maxPoison {
			return &RetryError{Err: fmt.Errorf("more than %d rows of one batch are refused: %w", maxPoison, refused), Hint: hintManyRows}
		}
		s.dead = append(s.dead, s.rows.dead(s.table, half[0], refused))
	}
	return nil
}

// remember keeps a copy of the last row of a table, which was stored.
func (b *Batcher) remember(table string, rows *Batch) {
	n := rows.length(table)
	if n == 0 {
		return
	}
	good := &Batch{}
	good.append(rows.part(table, n-1, n))
	b.good[table] = good
}

// gather moves the filling batch into p, unless that is full: among other rows, refused ones can be judged.
func (b *Batcher) gather(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.filling
	if b.full(p) || f.since.IsZero() || b.err != nil {
		return
	}
	p.rows.append(&f.rows)
	p.size += f.size
	if f.commit != nil {
		p.commit = f.commit
	}
	f.rows.reset()
	*f = pending{rows: f.rows}
	b.freed()
}

// bury hands poison rows to the dead letters and counts them. It waits until each is kept, because the commit that
// follows says that nothing is lost.
func (b *Batcher) bury(ctx context.Context, dead []DeadRow) error {
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
		b.metrics.dead.WithLabelValues(d.Table).Inc()
		b.logger.Error("row refused, kept as a dead letter", "table", d.Table, "id", d.ID, "seq", d.Seq, "error", d.Err)
	}
	return nil
}

// dead makes a DeadRow of row i of a table.
func (b *Batch) dead(table string, i int, err error) DeadRow {
	d := DeadRow{Table: table, Err: err}
	var row any
	switch table {
	case tableExchanges:
		r := &b.Exchanges[i]
		d.ID, d.Seq, row = r.ID, r.Seq, r
	case tableFindings:
		r := &b.Findings[i]
		d.ID, d.Seq, row = r.ID, r.Seq, r
	case tableToolCalls:
		r := &b.ToolCalls[i]
		d.ID, d.Seq, row = r.ID, r.Seq, r
	case tableRuns:
		r := &b.Runs[i]
		d.ID, d.Seq, row = r.ID, r.Seq, r
	case tableContents:
		r := &b.Contents[i]
		d.ID, row = r.ID, r
	case tableHistory:
		r := &b.History[i]
		d.ID, d.Seq, row = r.ID(), r.Seq, r
	case tableAlerts:
		r := &b.Alerts[i]
		d.ID, d.Seq, row = r.ID, r.Version, r
	}
	text, jerr := json.Marshal(row)
	if jerr != nil { // a value that JSON does not know, such as an infinite one; never what was refused, so text will do
		text, _ = json.Marshal(fmt.Sprintf("%+v", row))
	}
	d.Row = text
	return d
}

package sinks

import (
	"maps"
	"reflect"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer"
)

// The tables of a Batch.
var (
	Findings = newTable(TableOf[analyzer.Finding]{
		name: "findings", field: func(b *Batch) *[]analyzer.Finding { return &b.Findings },
		key:        func(f *analyzer.Finding) (string, uint64) { return f.ID, f.Seq },
		extraBytes: func(f *analyzer.Finding) int { return mapBytes(f.Attrs) },
	})
	ToolCalls = newTable(TableOf[analyzer.ToolCall]{
		name: "tool_calls", field: func(b *Batch) *[]analyzer.ToolCall { return &b.ToolCalls },
		key:        func(c *analyzer.ToolCall) (string, uint64) { return c.ID, c.Seq },
		extraBytes: func(c *analyzer.ToolCall) int { return mapBytes(c.Attrs) },
	})
	Contents = newTable(TableOf[analyzer.Content]{
		name: "messages", field: func(b *Batch) *[]analyzer.Content { return &b.Contents },
		key:   func(c *analyzer.Content) (string, uint64) { return c.ID, uint64(c.SeenAt.UnixNano()) },
		clone: func(b *Batch, c *analyzer.Content) { c.Body = b.texts.add(c.Body) }, // the analyzer reuses its memory
	})
	History = newTable(TableOf[analyzer.HistoryEntry]{
		name: "history", field: func(b *Batch) *[]analyzer.HistoryEntry { return &b.History },
		key: func(h *analyzer.HistoryEntry) (string, uint64) { return h.ID(), h.Seq },
	})
	Exchanges = newTable(TableOf[analyzer.Exchange]{
		name: "exchanges", field: func(b *Batch) *[]analyzer.Exchange { return &b.Exchanges },
		key:        func(e *analyzer.Exchange) (string, uint64) { return e.ID, e.Seq },
		extraBytes: exchangeBytes,
	})
	Runs = newTable(TableOf[analyzer.Run]{
		name: "runs", field: func(b *Batch) *[]analyzer.Run { return &b.Runs },
		key: func(r *analyzer.Run) (string, uint64) { return r.ID, r.Seq },
	})
	Alerts = newTable(TableOf[Alert]{
		name: "alerts", field: func(b *Batch) *[]Alert { return &b.Alerts },
		key:        func(a *Alert) (string, uint64) { return a.ID, a.Version },
		clone:      func(_ *Batch, a *Alert) { a.Labels, a.Shares = maps.Clone(a.Labels), maps.Clone(a.Shares) }, // the caller may change them later
		extraBytes: alertMapBytes,
	})
	Actions = newTable(TableOf[AlertAction]{
		name: "alert_actions", field: func(b *Batch) *[]AlertAction { return &b.Actions },
		key: func(a *AlertAction) (string, uint64) { return a.ID, 0 },
	})
	Audit = newTable(TableOf[AuditEntry]{
		name: "audit", field: func(b *Batch) *[]AuditEntry { return &b.Audit },
		key: func(a *AuditEntry) (string, uint64) { return a.ID, 0 },
	})
)

// Tables lists the tables in the order in which a sink writes them, so that findings are visible before their exchange.
var Tables = []Table{Findings, ToolCalls, Contents, History, Exchanges, Runs, Alerts, Actions, Audit}

// contentRefBytes is the approximate size of a reference to a Content, in bytes.
const contentRefBytes = 64

// exchangeBytes does not count Tools and Settings, because rows share them.
func exchangeBytes(e *analyzer.Exchange) int {
	return (len(e.Lead)+len(e.Marked))*contentRefBytes + mapBytes(e.Attrs)
}

func mapBytes(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}

func alertMapBytes(a *Alert) int {
	n := mapBytes(a.Labels)
	for k := range a.Shares {
		n += len(k) + 8
	}
	return n
}

// A Table describes one table: its name, the field of Batch with its rows, and their key. The batcher and the sinks
// handle rows only through Tables, so a new table requires only a field in Batch and an entry above.
type Table interface {
	Name() string
	// Len returns the number of rows in b.
	Len(b *Batch) int
	// Row returns a pointer to row i of b.
	Row(b *Batch, i int) any
	// NewRow appends an empty row to b and returns a pointer to it.
	NewRow(b *Batch) any
	// Key returns the id and the version of row i of b. The row with the highest version replaces all other rows with
	// its id.
	Key(b *Batch, i int) (id string, version uint64)

	slice(b *Batch, i, j int) *Batch
	append(b, rows *Batch)
	reset(b *Batch)
	bytes(b *Batch) int
}

// TableOf implements Table for rows of type R.
type TableOf[R any] struct {
	name       string
	field      func(*Batch) *[]R
	key        func(*R) (id string, version uint64)
	clone      func(*Batch, *R) // clones what a row copied to the batch shares with its original; may be nil
	strings    []uintptr        // offsets of the string fields of R
	extraBytes func(*R) int     // returns the size of maps and slices; may be nil
}

func newTable[R any](t TableOf[R]) *TableOf[R] {
	t.strings = stringOffsets(nil, reflect.TypeFor[R](), 0)
	return &t
}

// stringOffsets appends the offsets of the string fields of t, a struct at offset base, including fields of nested
// structs.
func stringOffsets(offsets []uintptr, t reflect.Type, base uintptr) []uintptr {
	for f := range t.Fields() {
		switch f.Type.Kind() {
		case reflect.String:
			offsets = append(offsets, base+f.Offset)
		case reflect.Struct:
			offsets = stringOffsets(offsets, f.Type, base+f.Offset)
		default:
		}
	}
	return offsets
}

// Name returns the name of the table.
func (t *TableOf[R]) Name() string { return t.name }

// Rows returns the rows of the table in b.
func (t *TableOf[R]) Rows(b *Batch) []R { return *t.field(b) }

// Len implements Table.
func (t *TableOf[R]) Len(b *Batch) int { return len(*t.field(b)) }

// Row implements Table.
func (t *TableOf[R]) Row(b *Batch, i int) any { return &(*t.field(b))[i] }

// NewRow implements Table.
func (t *TableOf[R]) NewRow(b *Batch) any {
	rows := t.field(b)
	*rows = append(*rows, *new(R))
	return &(*rows)[len(*rows)-1]
}

// Key implements Table.
func (t *TableOf[R]) Key(b *Batch, i int) (id string, version uint64) {
	return t.key(&(*t.field(b))[i])
}

// slice returns the rows from i to j-1. They share memory with b.
func (t *TableOf[R]) slice(b *Batch, i, j int) *Batch {
	part := &Batch{}
	*t.field(part) = (*t.field(b))[i:j]
	return part
}

func (t *TableOf[R]) append(b, from *Batch) {
	rows := t.field(b)
	n := len(*rows)
	*rows = append(*rows, *t.field(from)...)
	if t.clone != nil {
		for i := n; i < len(*rows); i++ {
			t.clone(b, &(*rows)[i])
		}
	}
}

// reset removes the rows from b and releases their strings, but keeps the memory of the slice.
func (t *TableOf[R]) reset(b *Batch) {
	rows := t.field(b)
	clear(*rows)
	*rows = (*rows)[:0]
}

// bytes returns the estimated memory of the rows in b: the structs, their strings and extraBytes.
func (t *TableOf[R]) bytes(b *Batch) int {
	rows := *t.field(b)
	n := len(rows) * int(unsafe.Sizeof(*new(R)))
	for i := range rows {
		row := unsafe.Pointer(&rows[i])
		for _, offset := range t.strings {
			n += len(*(*string)(unsafe.Add(row, offset)))
		}
		if t.extraBytes != nil {
			n += t.extraBytes(&rows[i])
		}
	}
	return n
}

// Rows returns the number of rows of all tables in b.
func (b *Batch) Rows() (n int) {
	for _, t := range Tables {
		n += t.Len(b)
	}
	return n
}

// Bytes returns the estimated memory of the rows in b.
func (b *Batch) Bytes() (n int) {
	for _, t := range Tables {
		n += t.bytes(b)
	}
	return n
}

// Append copies rows to the end of b.
func (b *Batch) Append(rows *Batch) {
	for _, t := range Tables {
		t.append(b, rows)
	}
}

// reset empties b but keeps its memory.
func (b *Batch) reset() {
	for _, t := range Tables {
		t.reset(b)
	}
	b.texts.reset()
}

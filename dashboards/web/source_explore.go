package web

import "io"

// An Explorer runs statements that a viewer wrote. Its Query limits time and size, and reads nothing but the tables of llmtap.
type Explorer interface {
	Querier
	// WriteCSV writes a header line and one line per row.
	WriteCSV(w io.Writer, t *Table) error
}

package importer

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/recorded"
)

// A Report is the result of an import.
type Report struct {
	Files     int                     `json:"files"`
	Records   int                     `json:"records"`   // lines and HAR entries, including skipped ones
	Exchanges int                     `json:"exchanges"` // published exchanges, without duplicates
	Skipped   map[recorded.Reason]int `json:"skipped"`
	Broken    int                     `json:"broken_files"` // files with read errors
	Empty     int                     `json:"empty_files"`  // files without records
	Untimed   int                     `json:"untimed"`      // exchanges without a time
	Bytes     int64                   `json:"bytes"`        // size of the bodies
	Seconds   float64                 `json:"seconds"`      // time to publish and, if Run waits for it, to store
	Stored    *uint64                 `json:"stored,omitempty"`
	Findings  map[string]uint64       `json:"findings,omitempty"` // findings by severity
}

// Complete reports whether all input was readable.
func (r *Report) Complete() bool { return r.unreadable() == 0 && r.Broken == 0 }

// unreadable returns the number of skipped records that should have been imported.
func (r *Report) unreadable() (n int) {
	for reason, k := range r.Skipped {
		if reason != duplicate && reason != recorded.NotLLM {
			n += k
		}
	}
	return n
}

// Write writes the report as text or json.
func (r *Report) Write(w io.Writer, format string) error {
	if format == command.JSON {
		return command.WriteJSON(w, r)
	}
	mb := float64(r.Bytes) / 1e6
	fmt.Fprintf(w, "imported %s of %s: %.1f MB in %.1f s (%.1f MB/s)\n", quantity.Plural(r.Exchanges, "call"), quantity.Plural(r.Records, "record"),
		mb, r.Seconds, mb/max(r.Seconds, 1e-3))
	for _, k := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(w, "  skipped  %6d  %s\n", r.Skipped[k], k)
	}
	if r.Broken > 0 {
		fmt.Fprintf(w, "  files with read errors: %d\n", r.Broken)
	}
	if r.Empty > 0 {
		fmt.Fprintf(w, "  files without records: %d\n", r.Empty)
	}
	if r.Untimed > 0 {
		fmt.Fprintf(w, "  calls without a time: %d; --date sets their day\n", r.Untimed)
	}
	if r.Stored != nil {
		fmt.Fprintf(w, "  stored: %d, with findings:", *r.Stored)
		if len(r.Findings) == 0 {
			fmt.Fprint(w, " none")
		}
		for _, k := range slices.Sorted(maps.Keys(r.Findings)) {
			fmt.Fprintf(w, " %d %s", r.Findings[k], k)
		}
		fmt.Fprintln(w)
	}
	return nil
}

package web

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/stored"
)

const (
	auditPath  = "/audit"
	auditRange = "24h" // default time range
	auditRows  = "200"
	auditFile  = "100000" // rows of a file
)

// An auditPage shows who did what.
type auditPage struct {
	*site
	store
	write func(w io.Writer, t *Table, format string) error
}

// An auditList is the data of the page.
type auditList struct {
	Rows              []auditRow
	More              bool // there are older rows
	Actions, Outcomes []string
	CSV               string // URL of all rows as a file
}

// An auditRow is a record. Its methods are those of stored.Row.
type auditRow struct {
	stored.Row
	At  Time
	URL string // of the target
}

// Words returns the action in words.
func (r auditRow) Words() string { return strings.ReplaceAll(r.Text("action"), "_", " ") }

// Stated reports whether nobody but the client knows who it was.
func (r auditRow) Stated() bool {
	return !r.Bool("verified") && r.Text("via") != "command" && r.Text("via") != "collector"
}

// ServeHTTP serves the records of a time range, or all of them as a file.
func (s auditPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Audit", auditPath, auditRange)
	p.Own, p.Still = true, true
	if p.Get("format") == "csv" && p.Problem == "" {
		s.csv(w, r, p)
		return
	}
	s.serve(w, r, p, section{id: "audit", template: "audit", title: "Who did what", load: func(ctx context.Context) (any, error) { return s.list(ctx, p.View) }})
}

// rows returns the newest records that the URL asks for.
func (s auditPage) rows(ctx context.Context, v *View, limit string) (*Table, error) {
	q, err := Statement("audit")
	if err != nil {
		return nil, err
	}
	return s.run(ctx, q, valuesOf(q, v, "who", v.Get("who"), "what", v.Get("what"), "target", v.Get("target"), "outcome", v.Get("outcome"), "limit", limit), v.Now)
}

func (s auditPage) list(ctx context.Context, v *View) (*auditList, error) {
	t, err := s.rows(ctx, v, auditRows)
	if err != nil {
		return nil, err
	}
	out := &auditList{Outcomes: access.Outcomes, CSV: v.Here("format", "csv")}
	for _, a := range access.Actions {
		out.Actions = append(out.Actions, string(a))
	}
	for _, r := range rowsOf(t) {
		x := auditRow{Row: r, At: v.At(r.Time("at"))}
		if access.Action(r.Text("action")) == access.ReadTexts {
			x.URL = idURL("conversation", r.Text("target"))
		}
		out.Rows = append(out.Rows, x)
	}
	out.More = strconv.Itoa(len(out.Rows)) == auditRows
	return out, nil
}

func (s auditPage) csv(w http.ResponseWriter, r *http.Request, p *page) {
	ctx, cancel := context.WithTimeout(r.Context(), csvTimeout)
	defer cancel()
	access.Note(ctx, access.ReadAudit, "", p.Here())
	t, err := s.rows(ctx, p.View, auditFile)
	if err != nil {
		http.Error(w, readable(err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="audit`+p.Now.Format("-20060102-150405")+`.csv"`)
	_ = s.write(w, t, "csv") // the client has left
}

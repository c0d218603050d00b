/*
Package remote runs read-only queries on the ClickHouse of a collector on another machine, or of another user. Those who may not run
statements of their own, such as a token of a team, run stored queries, which the collector binds itself, and declared statements of
commands (rows.Statement).

	llmtap show --url ─> Client ── POST /api/query: JSON {"sql", "params", "stored"} ──> guard of the listener ─> Handler ─> ClickHouse
	                        <──────── rows in ClickHouse's Native format ────────

The Native format keeps the types of all values, so that a command reads the same values as from ClickHouse itself.
*/
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Path is the path of the Handler.
const Path = "/api/query"

// ServerName is the value of the header Server of a collector.
const ServerName = "llmtap"

const (
	contentType     = "application/vnd.clickhouse.native"
	headerTruncated = "Llmtap-Truncated" // set if the result has more than the returned rows

	maxQueries   = 4                // concurrent queries, which bounds the memory of their results
	maxStatement = 1 << 20          // bytes of a statement with its parameters
	readTimeout  = 10 * time.Second // for the request
	writeTimeout = time.Minute      // for the response
)

// A statement is the body of a request.
type statement struct {
	SQL    string            `json:"sql"`
	Params map[string]string `json:"params,omitempty"` // in ClickHouse's text format, by the names in {name:Type}
	Stored *rows.Stored      `json:"stored,omitempty"` // the stored query whose statement it is
}

// Probe is the statement that anybody may run.
const Probe = "SELECT 1"

// readsTexts matches statements that read texts of bodies.
var readsTexts = regexp.MustCompile(`\b(?:FROM|JOIN)\s+messages`)

// allow returns st for somebody who sees scope: those who may not run statements of their own run those of commands, or the stored
// query, as this process knows them.
func (h *Handler) allow(st statement, scope *access.Scope) (statement, error) {
	err := scope.OwnSQL()
	switch {
	case err == nil, st.SQL == Probe && len(st.Params) == 0:
		return st, nil
	case rows.IsStatement(st.SQL):
		return st, scope.Refuses(readsTexts.MatchString(st.SQL), nil)
	case st.Stored == nil:
		return st, err
	case rows.IsStatement(st.Stored.Name) && st.Params != nil:
		st.SQL, err = queries.Filter(st.Stored.Name, st.Stored.Values, st.Params)
		return st, err
	}
	q, err := query.Named(st.Stored.Name, st.Stored.Values)
	if err == nil {
		err = scope.Refuses(q.Texts, st.Stored.Values)
	}
	if err == nil {
		st.SQL, st.Params, err = q.Statement(h.prices, st.Stored.At)
	}
	return st, err
}

// A Handler serves Path. It does not control access.
type Handler struct {
	clickHouse func() (*clickhouse.Sink, error)
	prices     price.Table   // for stored queries
	slots      chan struct{} // contains one value per running query
}

// NewHandler returns a handler that queries the result of clickHouse, which fails while there is none.
func NewHandler(clickHouse func() (*clickhouse.Sink, error), prices price.Table) *Handler {
	return &Handler{clickHouse: clickHouse, prices: prices, slots: make(chan struct{}, maxQueries)}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // only a test's recorder has no deadlines, also below
	var st statement
	body, err := io.ReadAll(access.MaxBytesReader(w, r.Body, maxStatement))
	if err == nil {
		_ = deadlines.SetReadDeadline(time.Time{}) // the query may take longer
		err = json.Unmarshal(body, &st)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("the body is not a JSON object with sql and params: %v", err), http.StatusBadRequest)
		return
	}
	st, err = h.allow(st, access.ScopeOf(r.Context()))
	detail := st.SQL
	if len(st.Params) > 0 {
		detail += fmt.Sprintf("\n-- %v", st.Params) // maps are printed in order of their keys
	}
	access.Note(r.Context(), access.RunSQL, "", detail)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	sink, err := h.clickHouse()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-r.Context().Done():
		return
	}
	res, err := sink.QueryBounded(r.Context(), st.SQL, st.Params)
	if err != nil {
		http.Error(w, strings.TrimPrefix(err.Error(), "run query: "), status(err))
		return
	}
	w.Header().Set("Content-Type", contentType)
	if res.Truncated {
		w.Header().Set(headerTruncated, "true")
	}
	_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer func() { _ = deadlines.SetWriteDeadline(time.Time{}) }() // for the next request on the connection
	if err := res.WriteNative(w); err != nil {
		panic(http.ErrAbortHandler) // the client reports an incomplete response
	}
}

// status returns the HTTP status for an error of a query.
func status(err error) int {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case clickhouse.Unreachable(err):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

package web

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// Options are what the pages read. A nil source costs the sections that need it.
type Options struct {
	ClickHouse    Querier
	Explorer      Explorer // of own SQL and CSV
	Alerts        Alerts
	Controls      Controls
	Incidents     Incidents
	Tallies       Tallies
	Health        Health
	Conversations Conversations
	Prices        queries.Prices
	Login         func(token string) bool // if set, requests need a session, which the login page starts with a token that it accepts
	SessionKey    []byte                  // signs sessions; nil: sessions end with this process
	Version       string                  // of llmtap
	Logger        *slog.Logger
	Now           func() time.Time // nil: time.Now

	flushAfter time.Duration // set by tests, whose machine may be slow
}

// A server serves the pages.
type server struct {
	Options
	templates *template.Template
	sessions  sessions
	live      *live
}

// NewHandler returns the handler of the pages.
func NewHandler(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.flushAfter = cmp.Or(o.flushAfter, flushAfter)
	s := &server{Options: o, sessions: newSessions(o.Login, o.SessionKey), live: newLive()}
	var err error
	if s.templates, err = template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	if _, err := statements(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.fleet)
	mux.HandleFunc("GET /explore", s.explore)
	mux.HandleFunc("GET /explore/{query}", s.explore)
	mux.HandleFunc("GET /search", s.search)
	mux.HandleFunc("GET /alerts", s.alerts)
	mux.HandleFunc("POST /alerts/{id}/acknowledge", s.act(s.acknowledge))
	mux.HandleFunc("POST /alerts/{id}/unacknowledge", s.act(s.unacknowledge))
	mux.HandleFunc("POST /alerts/{id}/silence", s.act(s.silenceAlert))
	mux.HandleFunc("POST /silences", s.act(s.addSilence))
	mux.HandleFunc("POST /silences/{id}/expire", s.act(s.expireSilence))
	mux.HandleFunc("GET /alerts/backtest", s.backtest)
	mux.HandleFunc("GET /versions", s.versions)
	mux.HandleFunc("GET /calls", s.toolCalls)
	mux.HandleFunc("GET /providers", s.providers)
	mux.HandleFunc("GET /incident", s.incidentOfCause)
	mux.HandleFunc("GET /incident/{id}", s.incidentOfAlert)
	mux.HandleFunc("GET /conversation/{id}", s.conversation)
	mux.HandleFunc("GET /exchange/{id}", s.conversation)
	mux.HandleFunc("GET /exchange/{id}/raw", s.raw)
	mux.HandleFunc("GET /live", s.serveLive)
	mux.HandleFunc("GET /login", s.loginPage)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.Handle("GET /static/", static())
	mux.HandleFunc("GET /", s.notFound)
	return s.protect(mux), nil
}

// static serves the style sheet and the script. Their URLs contain a hash of their content, so browsers may keep them.
func static() http.Handler {
	files := http.FileServerFS(staticFiles)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("v") == assetHash {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

var statements = sync.OnceValues(func() (map[string]queries.Query, error) {
	files, err := fs.Sub(sqlFiles, "sql")
	if err != nil {
		return nil, err
	}
	return queries.Load(files)
})

// Statement returns a statement of sql/*.sql, or else a stored query.
func Statement(name string) (queries.Query, error) {
	all, err := statements()
	if err != nil {
		return queries.Query{}, err
	}
	if q, ok := all[name]; ok {
		return q, nil
	}
	return queries.Get(name)
}

// query runs a statement of sql/*.sql, or a stored query.
func (s *server) query(ctx context.Context, name string, values queries.Values, now time.Time) ([]row, error) {
	q, err := Statement(name)
	if err != nil {
		return nil, err
	}
	t, err := s.run(ctx, q, values, now)
	if err != nil {
		return nil, err
	}
	return rowsOf(t), nil
}

// run runs a query.
func (s *server) run(ctx context.Context, q queries.Query, values queries.Values, now time.Time) (*Table, error) {
	if s.ClickHouse == nil {
		return nil, fmt.Errorf("ClickHouse is %w in this process", ErrUnavailable)
	}
	sql, params, err := s.bind(q, values, now)
	if err != nil {
		return nil, err
	}
	return s.ClickHouse.Query(ctx, sql, params)
}

// bind returns the statement of q and the values of all parameters.
func (s *server) bind(q queries.Query, values queries.Values, now time.Time) (sql string, params map[string]string, err error) {
	if sql, params, err = q.Bind(values, now); err != nil {
		return "", nil, err
	}
	for _, name := range q.Bound {
		if name == "prices" {
			params[name] = s.Prices.Bound()
		}
	}
	return sql, params, nil
}

// A row is a row of a Table by column name. Its methods return the zero value for a column of another type.
type row map[string]any

func rowsOf(t *Table) []row {
	all := make([]row, len(t.Rows))
	for i, values := range t.Rows {
		all[i] = make(row, len(values))
		for j, v := range values {
			all[i][t.Columns[j].Name] = v
		}
	}
	return all
}

func (r row) text(name string) string {
	s, _ := r[name].(string)
	return s
}

func (r row) time(name string) time.Time {
	t, _ := r[name].(time.Time)
	return t
}

func (r row) float(name string) float64 {
	switch n := r[name].(type) {
	case float64:
		return n
	case float32:
		return float64(n)
	default:
		return float64(r.int(name))
	}
}

func (r row) int(name string) int64 {
	switch n := r[name].(type) {
	case uint8:
		return int64(n)
	case uint16:
		return int64(n)
	case uint32:
		return int64(n)
	case uint64:
		return int64(n)
	case int8:
		return int64(n)
	case int16:
		return int64(n)
	case int32:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

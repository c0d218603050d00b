package web

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Options are what the pages read. A nil source costs the sections that need it.
type Options struct {
	ClickHouse    Query
	Explorer      Query                                            // of own SQL: it limits time and size, and reads nothing but the tables of llmtap
	Write         func(w io.Writer, t *Table, format string) error // as csv or jsonl
	HashUser      func(name string) []string                       // labels of the user with this name, as hooks publish it
	NoUserKey     string                                           // what is missing if hashes of users have no key
	Firing        Firing
	Changes       func(ctx context.Context) <-chan struct{} // receives a value after a change of Firing, and is closed when ctx ends
	Controls      Controls
	Incidents     Incidents
	Problems      Problems
	Views         Views // saved for all
	Tallies       Tallies
	Usual         Usual
	Health        func(ctx context.Context) []Part
	Ways          func() []Way    // how agents send their calls
	Refused       func() []string // clients that were refused in the last hour, in words
	Conversations Conversations
	Prices        price.Table
	CodeURL       string                  // URL of a line of an agent's code, with {version}, {file} and {line}; "": no links
	Login         func(token string) bool // if set, requests need a session, which the login page starts with a token that it accepts
	SessionKey    []byte                  // signs sessions; nil: sessions end with this process
	Version       string                  // of llmtap
	Logger        *slog.Logger
	Now           func() time.Time // nil: time.Now

	flushAfter time.Duration // set by tests, whose machine may be slow
}

// NewHandler returns the handler of the pages.
func NewHandler(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	templates, err := template.New("").Funcs(functions).Funcs(template.FuncMap{"place": places(o.CodeURL)}).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	if _, err := statements(); err != nil {
		return nil, err
	}
	s := &site{
		templates: templates, sessions: newSessions(o.Login, o.SessionKey), now: o.Now, flushAfter: cmp.Or(o.flushAfter, flushAfter), version: o.Version, logger: o.Logger, hashUser: o.HashUser,
	}
	if o.Controls != nil {
		s.elsewhere = o.Controls.Elsewhere
	}
	stored := store{o.ClickHouse, o.Prices}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", &fleetPage{site: s, trends: trends{stored, o.Usual}, firing: o.Firing, problems: o.Problems, tallies: o.Tallies, health: o.Health, ways: o.Ways, refused: o.Refused})
	explore := explorePage{s, stored, o.Explorer, o.Write}
	mux.Handle("GET /explore", explore)
	mux.Handle("GET /explore/{query}", explore)
	mux.Handle("GET /search", searchPage{s, stored})
	alerts := alertsPage{s, stored, o.Firing, o.Controls}
	mux.Handle("GET /alerts", alerts)
	mux.HandleFunc("POST /alerts/{id}/acknowledge", alerts.act(alerts.acknowledge))
	mux.HandleFunc("POST /alerts/{id}/unacknowledge", alerts.act(alerts.unacknowledge))
	mux.HandleFunc("POST /alerts/{id}/silence", alerts.act(alerts.silenceAlert))
	mux.HandleFunc("POST /silences", alerts.act(alerts.addSilence))
	mux.HandleFunc("POST /silences/{id}/expire", alerts.act(alerts.expireSilence))
	mux.Handle("GET /alerts/backtest", backtestPage{s, o.Controls})
	mux.Handle("GET /versions", versionsPage{s, stored})
	mux.Handle("GET /calls", toolsPage{s, stored})
	mux.Handle("GET /traffic/{kind}", trafficPage{s, stored, o.Write, o.NoUserKey})
	mux.Handle("GET /timeline", timelinePage{s, stored})
	mux.Handle("GET /suggest/{filter}", suggester{s, stored})
	mux.Handle("GET /providers", providersPage{s, stored})
	mux.Handle("GET /problems", problemsPage{s, o.Problems})
	incidents := incidentPage{s, trends{stored, o.Usual}, o.Incidents, o.Tallies, o.Problems, o.Controls}
	mux.HandleFunc("GET /problem/{id}", incidents.ofProblem)
	mux.HandleFunc("POST /problem/{id}/assign", incidents.act("assign", "assigned", incidents.assign))
	mux.HandleFunc("POST /problem/{id}/resolve", incidents.act("resolve", "fixed", incidents.resolve))
	mux.HandleFunc("POST /problem/{id}/ignore", incidents.act("ignore", "ignored", incidents.ignore))
	mux.HandleFunc("POST /problem/{id}/reopen", incidents.act("reopen", "reopened", nil))
	mux.HandleFunc("POST /problem/{id}/accept", incidents.act("accept", "accepted", nil))
	mux.HandleFunc("GET /incident", incidents.ofCause)
	mux.HandleFunc("GET /incident/{id}", incidents.ofAlert)
	conversations := conversationPage{s, o.Conversations}
	mux.Handle("GET /conversation/{id}", conversations)
	mux.Handle("GET /exchange/{id}", conversations)
	mux.HandleFunc("GET /exchange/{id}/raw", conversations.raw)
	views := viewsPage{s, o.Views}
	mux.Handle("GET "+viewsPath, views)
	mux.HandleFunc("POST "+viewsPath, views.act("saved", views.save))
	mux.HandleFunc("POST /views/rename", views.act("renamed", views.rename))
	mux.HandleFunc("POST /views/delete", views.act("deleted", views.remove))
	mux.Handle("GET /live", live{make(chan struct{}, maxLive), o.Changes, o.Now})
	login := loginPage{s}
	mux.Handle("GET /login", login)
	mux.HandleFunc("POST /login", login.login)
	mux.HandleFunc("POST /logout", login.logout)
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

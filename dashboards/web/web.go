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
	"github.com/llmtap/llmtap/dashboards/access"
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
	People        *access.Sessions        // if set, requests need a session, which the login page starts at a provider
	Machines      *access.Machines        // tokens of machines
	SessionKey    []byte                  // signs sessions; nil: sessions end with this process
	Hooks         access.Hooks
	Version       string // of llmtap
	Logger        *slog.Logger
	Now           func() time.Time // nil: time.Now

	flushAfter time.Duration // set by tests, whose machine may be slow
}

// A Handler serves the pages.
type Handler struct {
	http.Handler

	mux *access.Mux
}

// Routes returns the roles that the pages need, by pattern.
func (h *Handler) Routes() map[string]access.Role { return h.mux.Routes() }

// Audited returns the actions as which requests of pages are recorded, by pattern.
func (h *Handler) Audited() map[string]access.Action { return h.mux.Audited() }

// NewHandler returns the handler of the pages.
func NewHandler(o Options) (*Handler, error) {
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
		templates: templates, sessions: newSessions(&o), now: o.Now, flushAfter: cmp.Or(o.flushAfter, flushAfter), version: o.Version, logger: o.Logger, hashUser: o.HashUser,
	}
	if o.Controls != nil {
		s.elsewhere = o.Controls.Elsewhere
	}
	stored := store{o.ClickHouse, o.Prices}
	s.gate = access.Gate{
		Closed: o.Login != nil || o.People != nil, Token: o.Login, Machines: o.Machines,
		Session: func(r *http.Request) (access.Person, bool) { return s.sessions.person(r, s.now()) },
	}
	mux := access.NewMux(s.gate.Person, s.refuse, "pages", o.Hooks)
	mux.Handle("GET /{$}", access.Viewer, access.Unaudited, &fleetPage{site: s, trends: trends{stored, o.Usual}, firing: o.Firing, problems: o.Problems, tallies: o.Tallies, health: o.Health, ways: o.Ways, refused: o.Refused})
	explore := explorePage{s, stored, o.Explorer, o.Write}
	mux.Handle("GET /explore", access.Viewer, access.Unaudited, explore)
	mux.Handle("GET /explore/{query}", access.Viewer, access.Unaudited, explore)
	mux.Handle("GET /search", access.Viewer, access.Unaudited, searchPage{s, stored})
	alerts := alertsPage{s, stored, o.Firing, o.Controls}
	mux.Handle("GET /alerts", access.Viewer, access.Unaudited, alerts)
	mux.HandleFunc("POST /alerts/{id}/acknowledge", access.Responder, access.ChangeAlert, s.post(alerts.act(alerts.acknowledge)))
	mux.HandleFunc("POST /alerts/{id}/unacknowledge", access.Responder, access.ChangeAlert, s.post(alerts.act(alerts.unacknowledge)))
	mux.HandleFunc("POST /alerts/{id}/silence", access.Responder, access.ChangeSilence, s.post(alerts.act(alerts.silenceAlert)))
	mux.HandleFunc("POST /silences", access.Responder, access.ChangeSilence, s.post(alerts.act(alerts.addSilence)))
	mux.HandleFunc("POST /silences/{id}/expire", access.Responder, access.ChangeSilence, s.post(alerts.act(alerts.expireSilence)))
	mux.Handle("GET /alerts/backtest", access.Viewer, access.Unaudited, backtestPage{s, o.Controls})
	mux.Handle("GET /versions", access.Viewer, access.Unaudited, versionsPage{s, stored})
	mux.Handle("GET /calls", access.Viewer, access.Unaudited, toolsPage{s, stored})
	mux.Handle("GET /traffic/{kind}", access.Viewer, access.Unaudited, trafficPage{s, stored, o.Write, o.NoUserKey})
	mux.Handle("GET /timeline", access.Viewer, access.Unaudited, timelinePage{s, stored})
	mux.Handle("GET /suggest/{filter}", access.Viewer, access.Unaudited, suggester{s, stored})
	mux.Handle("GET /providers", access.Viewer, access.Unaudited, providersPage{s, stored})
	mux.Handle("GET /problems", access.Viewer, access.Unaudited, problemsPage{s, o.Problems})
	incidents := incidentPage{s, trends{stored, o.Usual}, o.Incidents, o.Tallies, o.Problems, o.Controls}
	mux.HandleFunc("GET /problem/{id}", access.Viewer, access.Unaudited, incidents.ofProblem)
	mux.HandleFunc("POST /problem/{id}/assign", access.Responder, access.ChangeProblem, s.post(incidents.act("assign", "assigned", incidents.assign)))
	mux.HandleFunc("POST /problem/{id}/resolve", access.Responder, access.ChangeProblem, s.post(incidents.act("resolve", "fixed", incidents.resolve)))
	mux.HandleFunc("POST /problem/{id}/ignore", access.Responder, access.ChangeProblem, s.post(incidents.act("ignore", "ignored", incidents.ignore)))
	mux.HandleFunc("POST /problem/{id}/reopen", access.Responder, access.ChangeProblem, s.post(incidents.act("reopen", "reopened", nil)))
	mux.HandleFunc("POST /problem/{id}/accept", access.Responder, access.ChangeProblem, s.post(incidents.act("accept", "accepted", nil)))
	mux.HandleFunc("GET /incident", access.Viewer, access.Unaudited, incidents.ofCause)
	mux.HandleFunc("GET /incident/{id}", access.Viewer, access.Unaudited, incidents.ofAlert)
	conversations := conversationPage{s, o.Conversations}
	mux.Handle("GET /conversation/{id}", access.Viewer, access.ReadTexts, conversations)
	mux.Handle("GET /exchange/{id}", access.Viewer, access.ReadTexts, conversations)
	mux.HandleFunc("GET /exchange/{id}/raw", access.Viewer, access.ReadTexts, conversations.raw)
	views := viewsPage{s, o.Views}
	mux.Handle("GET "+viewsPath, access.Viewer, access.Unaudited, views)
	mux.HandleFunc("POST "+viewsPath, access.Responder, access.ChangeView, s.post(views.act("saved", views.save)))
	mux.HandleFunc("POST /views/rename", access.Responder, access.ChangeView, s.post(views.act("renamed", views.rename)))
	mux.HandleFunc("POST /views/delete", access.Responder, access.ChangeView, s.post(views.act("deleted", views.remove)))
	mux.Handle("GET /live", access.Viewer, access.Unaudited, live{make(chan struct{}, maxLive), o.Changes, o.Now})
	mux.Handle("GET "+auditPath, access.Admin, access.ReadAudit, auditPage{s, stored, o.Write})
	login := loginPage{s}
	mux.Handle("GET /login", access.Public, access.Unaudited, login)
	if o.People != nil {
		mux.HandleFunc("GET "+startPath, access.Public, access.Unaudited, login.start)
		mux.HandleFunc("GET "+CallbackPath, access.Public, access.LogIn, login.callback)
	}
	mux.HandleFunc("POST /login", access.Public, access.LogIn, s.post(login.login))
	mux.HandleFunc("POST /logout", access.Public, access.LogOut, s.post(login.logout))
	mux.Handle("GET /static/", access.Public, access.Unaudited, static())
	mux.HandleFunc("GET /", access.Viewer, access.Unaudited, s.notFound)
	return &Handler{protect(mux), mux}, nil
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

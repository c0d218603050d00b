package access

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// A Gate finds out who sends a request. The zero Gate lets everyone in as an admin.
type Gate struct {
	Closed   bool                                      // requests without credentials are refused
	Token    func(token string) bool                   // reports whether it is a token of the configuration, which is that of an admin
	Machines *Machines                                 // nil: none
	Session  func(r *http.Request) (p Person, ok bool) // of a browser; nil: none
}

// Person returns who sends r. Credentials are a bearer token, a token as the password of any user, which is the only way of some
// tools, or a session.
func (g Gate) Person(r *http.Request) (Person, bool) {
	token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !sent {
		_, token, sent = r.BasicAuth()
	}
	switch {
	case sent && strings.HasPrefix(token, tokenPrefix): // checked on open listeners, too: a revoked token must not seem to work
		return g.Machines.person(token)
	case !g.Closed:
		return Person{Role: Admin}, true
	case sent:
		return Person{Role: Admin}, g.Token != nil && g.Token(token)
	case g.Session != nil:
		return g.Session(r)
	}
	return Person{}, false
}

// A Mux is an http.ServeMux whose routes name the role that they need, and the action as which a request is recorded. Requests that
// match no route need the role of a viewer.
type Mux struct {
	mux    *http.ServeMux
	routes map[string]route
	person func(r *http.Request) (Person, bool)
	refuse func(w http.ResponseWriter, r *http.Request, needs Role)
	hooks  Hooks
	audit  *recorder // nil: nothing is recorded
}

type route struct {
	needs  Role
	action Action
}

// Hooks are what a Mux calls for its requests. The zero Hooks do nothing.
type Hooks struct {
	Record func(Record)                                        // stores what somebody did; it must not block
	Scope  func(ctx context.Context, p Person) context.Context // limits what the handlers read for p
}

// NewMux returns a Mux for requests of those whom person returns. refuse answers those whose role is below needs, which is Public if
// they are not known, and those who see nothing. via is Record.Via.
func NewMux(person func(r *http.Request) (p Person, ok bool), refuse func(w http.ResponseWriter, r *http.Request, needs Role), via string, hooks Hooks) *Mux {
	m := &Mux{mux: http.NewServeMux(), routes: map[string]route{}, person: person, refuse: refuse, hooks: hooks}
	if hooks.Record != nil {
		m.audit = &recorder{record: hooks.Record, via: via, recent: map[Record]time.Time{}}
	}
	return m
}

// Handle is that of http.ServeMux, for a route that needs a role and is recorded as an action.
func (m *Mux) Handle(pattern string, needs Role, action Action, h http.Handler) {
	m.mux.Handle(pattern, h)
	m.routes[pattern] = route{needs, action}
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, needs Role, action Action, h http.HandlerFunc) {
	m.Handle(pattern, needs, action, h)
}

// Routes returns the roles that the routes need, by pattern.
func (m *Mux) Routes() map[string]Role {
	out := map[string]Role{}
	for pattern, r := range m.routes {
		out[pattern] = r.needs
	}
	return out
}

// Audited returns the actions as which requests are recorded, by pattern.
func (m *Mux) Audited() map[string]Action {
	out := map[string]Action{}
	for pattern, r := range m.routes {
		out[pattern] = r.action
	}
	return out
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := m.mux.Handler(r)
	of, found := m.routes[pattern]
	if !found {
		of = route{Viewer, Unaudited}
	}
	p, known := m.person(r)
	if known {
		r = r.WithContext(With(r.Context(), p))
	}
	p = From(r.Context())
	if m.hooks.Scope != nil {
		r = r.WithContext(m.hooks.Scope(r.Context(), p))
	}
	// Who is not known is not recorded, but for a log-in: anybody could fill the audit.
	if m.audit != nil && (p.Role > Public || of.action == LogIn) {
		var end func()
		w, r, end = m.audit.request(w, r, pattern, of.action)
		defer end()
	}
	if p.Role < of.needs || of.needs > Public && ScopeOf(r.Context()).Nothing() {
		m.refuse(w, r, of.needs)
		return
	}
	m.mux.ServeHTTP(w, r)
}

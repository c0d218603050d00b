package access

import (
	"maps"
	"net/http"
	"strings"
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
	case sent && strings.HasPrefix(token, TokenPrefix): // checked on open listeners, too: a revoked token must not seem to work
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

// A Mux is an http.ServeMux whose routes name the role that they need. Requests that match no route need that of a viewer.
type Mux struct {
	mux    *http.ServeMux
	needs  map[string]Role
	person func(r *http.Request) (Person, bool)
	refuse func(w http.ResponseWriter, r *http.Request, needs Role)
}

// NewMux returns a Mux for requests of those whom person returns. refuse answers those whose role is below needs, which is Public if
// they are not known.
func NewMux(person func(r *http.Request) (p Person, ok bool), refuse func(w http.ResponseWriter, r *http.Request, needs Role)) *Mux {
	return &Mux{mux: http.NewServeMux(), needs: map[string]Role{}, person: person, refuse: refuse}
}

// Handle is that of http.ServeMux, for a route that needs a role.
func (m *Mux) Handle(pattern string, needs Role, h http.Handler) {
	m.mux.Handle(pattern, h)
	m.needs[pattern] = needs
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, needs Role, h http.HandlerFunc) { m.Handle(pattern, needs, h) }

// Routes returns the roles that the routes need, by pattern.
func (m *Mux) Routes() map[string]Role { return maps.Clone(m.needs) }

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := m.mux.Handler(r)
	needs, found := m.needs[pattern]
	if !found {
		needs = Viewer
	}
	if p, known := m.person(r); known {
		r = r.WithContext(With(r.Context(), p))
	}
	if From(r.Context()).Role < needs {
		m.refuse(w, r, needs)
		return
	}
	m.mux.ServeHTTP(w, r)
}

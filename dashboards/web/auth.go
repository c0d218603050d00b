package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
)

const (
	sessionCookie = access.SessionCookie
	sessionTime   = 7 * 24 * time.Hour // of a session that was started with a token
	// loginInterval is the minimum time between two logins with a wrong token, of all clients together.
	loginInterval = time.Second
	maxForm       = 64 << 10
)

// sessions starts and checks sessions. A session that was started with a token is the cookie EXPIRY.SIGNATURE, so with a key that is
// the same, it survives restarts.
type sessions struct {
	accept func(token string) bool // nil: nobody can log in with a token
	people *access.Sessions        // nil: nobody can log in at a provider
	key    []byte                  // also signs forms
	login  *sync.Mutex             // held for loginInterval after a wrong token
}

func newSessions(o *Options) sessions {
	key := o.SessionKey
	if key == nil {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
	}
	return sessions{o.Login, o.People, key, new(sync.Mutex)}
}

func (s sessions) sign(text string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s sessions) start(now time.Time) string {
	expiry := strconv.FormatInt(now.Add(sessionTime).Unix(), 10)
	return expiry + "." + s.sign("session "+expiry)
}

// person returns whose session r belongs to.
func (s sessions) person(r *http.Request, now time.Time) (access.Person, bool) {
	if p, ok := s.people.Person(r); ok {
		return p, true
	}
	c, err := r.Cookie(sessionCookie)
	if err != nil || s.accept == nil {
		return access.Person{}, false
	}
	expiry, signature, _ := strings.Cut(c.Value, ".")
	end, err := strconv.ParseInt(expiry, 10, 64)
	return access.Person{Role: access.Admin}, err == nil && now.Unix() < end && equal(signature, s.sign("session "+expiry))
}

// form returns the value of the hidden field of forms. Another site cannot read it, so it cannot submit a form.
func (s sessions) form(r *http.Request) string {
	session := ""
	if c, err := r.Cookie(sessionCookie); err == nil {
		session = c.Value
	}
	return s.sign("form " + session)
}

// submitted reports whether the form in r was sent by a page of this session.
func (s sessions) submitted(r *http.Request) bool { return equal(r.PostFormValue("form"), s.form(r)) }

func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// contentSecurityPolicy allows only what the binary serves.
const contentSecurityPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// protect sets the headers of all pages.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // a URL contains names of services and users; no-referrer would also hide the origin of forms
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers requests of those who may not make them. People without a session are led to the login page.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, needs access.Role) {
	p := access.From(r.Context())
	switch {
	case p.Role >= needs && p.Role > access.Public:
		s.write(w, http.StatusForbidden, "no-team", noTeamData{p, s.sessions.form(r)})
	case p.Role > access.Public:
		http.Error(w, "you have the role "+p.Role.String()+", and this needs the role "+needs.String(), http.StatusForbidden)
	case r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Error(w, "the session has ended: log in at /login", http.StatusUnauthorized)
	case s.sessions.people.Known(r): // the provider usually still knows the person, too
		http.Redirect(w, r, startPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	}
}

// A noTeamData is the data of the page for people who see nothing.
type noTeamData struct {
	Person access.Person
	Form   string
}

// post returns a handler of a form: next, if a page of this session has sent it.
func (s *site) post(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.sessions.submitted(r) {
			http.Error(w, "this form is too old, or was not sent by this site: go back, reload the page and try again", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// startPath is the path that leads to the provider. Below /login is also CallbackPath.
const startPath = "/login/start"

// CallbackPath is the path to which the provider sends people after a log-in.
const CallbackPath = "/login/callback"

// A loginPage starts and ends sessions.
type loginPage struct{ *site }

// A loginData is the data of the login page.
type loginData struct {
	Next, Form, Error string
	Start             string // URL that leads to the provider; empty: there is none
	Token             bool   // a token is accepted
}

func (s loginPage) show(w http.ResponseWriter, r *http.Request, status int, next, reason string) {
	d := loginData{Next: next, Form: s.sessions.form(r), Error: reason, Token: s.sessions.accept != nil}
	if s.sessions.people != nil {
		d.Start = startPath + "?next=" + url.QueryEscape(next)
	}
	s.write(w, status, "login", d)
}

func (s loginPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if access.From(r.Context()).Role > access.Public {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	s.show(w, r, http.StatusOK, next, "")
}

// start leads to the provider.
func (s loginPage) start(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if err := s.sessions.people.Begin(w, r, next); err != nil {
		s.logger.Error("nobody can log in at the provider", "err", err)
		s.show(w, r, http.StatusBadGateway, next, "The provider does not answer. The log of llmtap has the reason.")
	}
}

// callback ends a log-in at the provider.
func (s loginPage) callback(w http.ResponseWriter, r *http.Request) {
	next, err := s.sessions.people.Finish(w, r)
	if err != nil {
		s.show(w, r, http.StatusForbidden, local(next), capital(err.Error())+".")
		return
	}
	http.Redirect(w, r, local(next), http.StatusSeeOther)
}

func (s loginPage) login(w http.ResponseWriter, r *http.Request) {
	next := local(r.PostFormValue("next"))
	if !s.sessions.allow(r, r.PostFormValue("token")) {
		s.show(w, r, http.StatusForbidden, next, "This is not the token of this llmtap. It is ui.token, or else http.token, of its configuration.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: s.sessions.start(s.now()), Path: "/", MaxAge: int(sessionTime.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
		SameSite: http.SameSiteLaxMode, // Strict would ask everyone who follows a link from Slack to log in
	})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// allow reports whether token is right. Wrong tokens are answered one by one, so that nobody can try many.
func (s sessions) allow(r *http.Request, token string) bool {
	if s.accept != nil && s.accept(token) || s.accept == nil && s.people == nil {
		return true
	}
	s.login.Lock()
	defer s.login.Unlock()
	select {
	case <-time.After(loginInterval):
	case <-r.Context().Done():
	}
	return false
}

func (s loginPage) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.people.End(r)
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// local returns next if it is a path of this site, or else the first page.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

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
)

const (
	sessionCookie = "llmtap_session"
	sessionTime   = 7 * 24 * time.Hour
	// loginInterval is the minimum time between two logins with a wrong token, of all clients together.
	loginInterval = time.Second
	maxForm       = 64 << 10
)

// sessions starts and checks sessions. A session is the cookie EXPIRY.SIGNATURE, so with a key that is the same, it survives restarts.
type sessions struct {
	accept func(token string) bool // nil: no token is required, and only forms are signed
	key    []byte
	login  *sync.Mutex // held for loginInterval after a wrong token
}

func newSessions(accept func(token string) bool, key []byte) sessions {
	if key == nil {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
	}
	return sessions{accept, key, new(sync.Mutex)}
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

// valid reports whether r belongs to a session, or no token is required.
func (s sessions) valid(r *http.Request, now time.Time) bool {
	if s.accept == nil {
		return true
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s.accept(bearer)
	}
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	expiry, signature, _ := strings.Cut(c.Value, ".")
	end, err := strconv.ParseInt(expiry, 10, 64)
	return err == nil && now.Unix() < end && equal(signature, s.sign("session "+expiry))
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

// protect passes requests with a session to next. Others see the login page.
func (s *site) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // a URL contains names of services and users; no-referrer would also hide the origin of forms
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		open := r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/static/")
		switch {
		case !open && !s.sessions.valid(r, s.now()):
			if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
				http.Error(w, "the session has ended: log in at /login", http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		case r.Method == http.MethodPost:
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if !s.sessions.submitted(r) {
				http.Error(w, "this form is too old, or was not sent by this site: go back, reload the page and try again", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A loginPage starts and ends sessions.
type loginPage struct{ *site }

// A loginData is the data of the login page.
type loginData struct{ Next, Form, Error string }

func (s loginPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.sessions.valid(r, s.now()) {
		http.Redirect(w, r, local(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	s.write(w, http.StatusOK, "login", loginData{Next: local(r.URL.Query().Get("next")), Form: s.sessions.form(r)})
}

func (s loginPage) login(w http.ResponseWriter, r *http.Request) {
	next := local(r.PostFormValue("next"))
	if !s.sessions.allow(r, r.PostFormValue("token")) {
		s.write(w, http.StatusForbidden, "login", loginData{next, s.sessions.form(r), "This is not the token of this llmtap. It is ui.token, or else http.token, of its configuration."})
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
	if s.accept == nil || s.accept(token) {
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

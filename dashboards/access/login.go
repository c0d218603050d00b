package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	// loginCookie is the prefix of the cookies that bind a log-in to its browser. There is one for each, so that several tabs can log
	// in at once.
	loginCookie = "llmtap_login_"
	loginTime   = 10 * time.Minute
	loginPath   = "/login/"
	// maxNext bounds the address to which a log-in leads, which is in a cookie.
	maxNext = 2000
)

// A login is a log-in that has begun in a browser. All that is sent to the provider is computed from Secret, which only the browser
// has, in a signed cookie.
type login struct {
	Secret  string `json:"secret"`
	Next    string `json:"next"`
	Expires int64  `json:"expires"` // Unix time
}

func (l login) part(purpose string) string { return sign([]byte(l.Secret), purpose) }
func (l login) state() string              { return l.part("state") }
func (l login) nonce() string              { return l.part("nonce") }
func (l login) verifier() string           { return l.part("verifier") }

func sign(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookieOf returns the name of the cookie of the log-in with a state.
func cookieOf(state string) string { return loginCookie + hash(state)[:8] }

// Begin sends the browser to the provider, which sends it back to the callback. next must be a path of this site.
func (s *Sessions) Begin(w http.ResponseWriter, r *http.Request, next string) error {
	if len(next) > maxNext {
		next = "/"
	}
	l := login{Secret: random(), Next: next, Expires: s.now().Add(loginTime).Unix()}
	to, err := s.provider.authURL(r.Context(), l)
	if err != nil {
		return err
	}
	value, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text := base64.RawURLEncoding.EncodeToString(value)
	http.SetCookie(w, &http.Cookie{
		Name: cookieOf(l.state()), Value: text + "." + sign(s.key, "login "+text), Path: loginPath, MaxAge: int(loginTime.Seconds()),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// errLogin means that the browser has not begun this log-in, or long ago.
var errLogin = errors.New("this log-in was not begun in this browser, is too old, or has been used: log in again")

// begun returns the log-in that the request to the callback ends, which it does once.
func (s *Sessions) begun(w http.ResponseWriter, r *http.Request) (login, error) {
	var l login
	state := r.URL.Query().Get("state")
	c, err := r.Cookie(cookieOf(state))
	if err != nil {
		return l, errLogin
	}
	http.SetCookie(w, &http.Cookie{Name: c.Name, Path: loginPath, MaxAge: -1, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
	text, signature, _ := strings.Cut(c.Value, ".")
	value, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !equal(signature, sign(s.key, "login "+text)) || json.Unmarshal(value, &l) != nil || !equal(state, l.state()) {
		return l, errLogin
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for used, end := range s.used {
		if now.After(end) {
			delete(s.used, used)
		}
	}
	end := time.Unix(l.Expires, 0)
	if _, used := s.used[state]; used || !now.Before(end) {
		return l, errLogin
	}
	s.used[state] = end
	return l, nil
}

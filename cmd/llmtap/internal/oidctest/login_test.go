package oidctest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// groups are those of the tests that have a role.
var groups = access.Groups{Viewer: []string{"staff"}, Responder: []string{"on-call"}, Admin: []string{"platform"}}

// A memory is an access.Store.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (m *memory) Replace(_ context.Context, key string, old, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !bytes.Equal(m.values[key], old) {
		return access.ErrConflict
	}
	m.values[key] = value
	return nil
}

func (m *memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key], nil
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return nil
}

// A world is the pages of one process, a provider, and a clock.
type world struct {
	*testing.T
	provider *provider
	teams    access.Teams
	pages    *web.Handler
	url      string
	store    *memory
	people   *access.Sessions
	passed   atomic.Int64 // time.Duration
}

func newWorld(t *testing.T, change func(*access.Config), teams ...access.Team) *world {
	t.Helper()
	w := &world{T: t, teams: teams, store: &memory{values: map[string][]byte{}}}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.pages.ServeHTTP(rw, r) }))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	w.provider = newProvider(t, w.url+web.CallbackPath)
	cfg := access.Default()
	cfg.Issuer, cfg.ClientID, cfg.ClientSecret, cfg.Roles = w.provider.URL, clientID, clientSecret, groups
	cfg.Scopes = append(cfg.Scopes, "offline_access")
	if change != nil {
		change(&cfg)
	}
	must.Do(t, cfg.Validate())
	now := func() time.Time { return time.Now().Add(time.Duration(w.passed.Load())) }
	policy := access.Policy{Teams: w.teams, Texts: cfg.Roles.Texts}
	scope := func(ctx context.Context, p access.Person) context.Context {
		return access.WithScope(ctx, policy.Scope(p))
	}
	w.people = access.NewSessions(access.Options{Config: cfg, Policy: policy, Redirect: w.url + web.CallbackPath, Store: w.store, Key: []byte("k"), Now: now})
	w.pages = must.Get(web.NewHandler(web.Options{People: w.people, Hooks: access.Hooks{Scope: scope}, SessionKey: []byte("k"), Now: now, Version: "test"}))(t)
	return w
}

// pass moves the clock of llmtap.
func (w *world) pass(d time.Duration) { w.passed.Add(int64(d)) }

// who returns the person and role that the page shows to a browser, or where it is led instead.
func (w *world) who(b browser) string {
	w.Helper()
	a := b.get(w.url + "/alerts")
	if a.code != http.StatusOK {
		return strings.TrimPrefix(a.to, w.url)
	}
	m := regexp.MustCompile(`<span class="person"[^>]*>([^<]*)<small>([a-z]+)`).FindStringSubmatch(a.body)
	if m == nil {
		return "nobody"
	}
	return m[1] + m[2]
}

const (
	toLogin = "/login?next=%2Falerts"
	again   = "/login/start?next=%2Falerts"
)

func TestLogIn(t *testing.T) {
	for _, thin := range []bool{false, true} {
		t.Run(fmt.Sprintf("thin %v", thin), func(t *testing.T) {
			w := newWorld(t, nil)
			w.provider.thin = thin
			w.provider.set("anna", "staff", "on-call", "other")
			b := newBrowser(t)
			must.Equal(t, w.who(b), toLogin, "without a session")
			page := b.get(w.url + toLogin)
			must.Contain(t, page.body, `href="/login/start?next=%2Falerts"`)
			if strings.Contains(page.body, "password") {
				t.Error("the page asks for a token although there is none")
			}
			a := b.login(w.url, "anna")
			must.Equal(t, a.code, http.StatusSeeOther, "status")
			must.Equal(t, a.to, w.url+"/alerts", "leads to")
			must.Equal(t, w.who(b), "Anna Example responder", "who")
			for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
				must.Contain(t, strings.Join(a.heads["Set-Cookie"], "\n"), want)
			}
			for _, name := range []string{"state", "nonce", "code_challenge"} {
				if len(w.provider.asked.Get(name)) < 40 {
					t.Errorf("%s is %q", name, w.provider.asked.Get(name))
				}
			}
			must.Equal(t, w.provider.asked.Get("code_challenge_method"), "S256", "PKCE")
			// What is stored opens nothing: neither the id of the session nor the refresh token is readable.
			for key, value := range w.store.values {
				cookies := b.Jar.Cookies(must.Get(url.Parse(w.url + "/"))(t))
				must.Equal(t, len(cookies), 1, "cookies")
				for _, c := range cookies {
					if strings.Contains(key+string(value), c.Value) {
						t.Errorf("the store has the cookie %s", c.Name)
					}
				}
				must.Contain(t, string(value), `"refresh":"`)
			}
		})
	}
}

// Roles follow the groups, and those in no group are told which ones are asked for.
func TestGroups(t *testing.T) {
	w := newWorld(t, nil)
	for name, want := range map[string]string{"staff": "viewer", "on-call": "responder", "platform": "admin"} {
		w.provider.set("anna", name)
		b := newBrowser(t)
		b.login(w.url, "anna")
		must.Equal(t, w.who(b), "Anna Example "+want, "%s", name)
	}
	w.provider.set("eve", "other")
	b := newBrowser(t)
	a := b.login(w.url, "eve")
	must.Equal(t, a.code, http.StatusForbidden, "in no group: status")
	for _, want := range []string{"Eve Example is in none of the groups", "staff (viewer)", "on-call (responder)", "platform (admin)", "the claim groups"} {
		must.Contain(t, a.body, want)
	}
	must.Equal(t, w.who(b), toLogin, "in no group")
	// A claim that is a text, as the address of Google.
	w = newWorld(t, func(c *access.Config) {
		c.GroupsClaim, c.Roles = "email", access.Groups{Viewer: []string{"anna@example.com"}}
	})
	w.provider.set("anna", "x")
	b = newBrowser(t)
	b.login(w.url, "anna")
	must.Equal(t, w.who(b), "Anna Example viewer", "by address")
}

// Sessions are renewed by the refresh token: people who were removed lose theirs, and groups change roles.
func TestRenewal(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "platform")
	b := newBrowser(t)
	b.login(w.url, "anna")
	w.provider.set("anna", "staff")
	w.pass(access.SessionTime - time.Minute)
	must.Equal(t, w.who(b), "Anna Example admin", "before the renewal")
	w.pass(2 * time.Minute)
	must.Equal(t, w.who(b), "Anna Example viewer", "after the groups have changed")
	// Rotated refresh tokens work again and again, and one renewal serves requests at the same time.
	w.pass(access.SessionTime)
	before := w.provider.exchanges()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := w.who(b); got != "Anna Example viewer" {
				t.Errorf("at the same time: %s", got)
			}
		})
	}
	all.Wait()
	must.Equal(t, w.provider.exchanges(), before+1, "renewals")

	// The provider does not answer: the session continues for at most an hour.
	w.provider.change(func() { w.provider.down = true })
	w.pass(access.SessionTime)
	must.Equal(t, w.who(b), "Anna Example viewer", "provider down")
	w.pass(50 * time.Minute)
	must.Equal(t, w.who(b), "Anna Example viewer", "provider down for 50 minutes")
	w.pass(20 * time.Minute)
	must.Equal(t, w.who(b), again, "provider down for 70 minutes")
	w.provider.change(func() { w.provider.down = false })
	w.pass(time.Minute)
	must.Equal(t, w.who(b), "Anna Example viewer", "provider back")

	w.provider.set("anna", "other")
	w.pass(access.SessionTime + time.Minute)
	must.Equal(t, w.who(b), again, "in no group any more")
	must.Equal(t, len(w.store.values), 0, "stored sessions")
	w.provider.set("anna", "staff")
	b.login(w.url, "anna")
	w.provider.change(func() { delete(w.provider.people, "anna") })
	must.Equal(t, w.who(b), "Anna Example viewer", "removed, before the renewal")
	w.pass(access.SessionTime + time.Minute)
	must.Equal(t, w.who(b), again, "removed")
}

// Who is in no team sees nothing but whom to ask, until the provider says otherwise.
func TestTeams(t *testing.T) {
	w := newWorld(t, nil, access.Team{Name: "shop", Groups: []string{"shop-eng"}, Match: []string{`service="shop"`}})
	must.Do(t, w.teams.Validate())
	w.provider.set("anna", "staff")
	b := newBrowser(t)
	b.login(w.url, "anna")
	a := b.get(w.url + "/alerts")
	must.Equal(t, a.code, http.StatusForbidden, "in no team")
	must.Contain(t, a.body, "Anna Example is in no team")
	must.Contain(t, a.body, `action="/logout"`)
	must.Equal(t, b.get(w.url+"/explore/causes?format=csv").code, http.StatusForbidden, "an export")
	w.provider.set("anna", "staff", "shop-eng")
	w.pass(access.SessionTime + time.Minute)
	a = b.get(w.url + "/alerts")
	must.Equal(t, a.code, http.StatusOK, "in a team")
	must.Contain(t, a.body, "viewer of shop")
	w.provider.set("anna", "platform")
	w.pass(access.SessionTime + time.Minute)
	must.Equal(t, w.who(b), "Anna Example admin", "an admin")
	if strings.Contains(b.get(w.url+"/alerts").body, "of shop") {
		t.Error("an admin is limited to a team")
	}
}

// Without a refresh token, the browser is led to the provider when the session has ended, and back.
func TestExpiry(t *testing.T) {
	w := newWorld(t, func(c *access.Config) { c.Scopes = []string{"openid", "profile", "email"} })
	w.provider.set("anna", "staff")
	b := newBrowser(t)
	b.login(w.url, "anna")
	w.pass(access.SessionTime + time.Minute)
	must.Equal(t, w.who(b), again, "expired")
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/alerts", http.NoBody))(t)
	resp := must.Get(b.Do(r))(t)
	must.Do(t, resp.Body.Close())
	must.Equal(t, resp.StatusCode, http.StatusUnauthorized, "a script")
	must.Equal(t, b.login(w.url, "anna").code, http.StatusSeeOther, "again")
	must.Equal(t, len(w.store.values), 1, "stored sessions")
}

var formValue = regexp.MustCompile(`name="form" value="([^"]+)"`)

// Log-out ends the session, also in a copy of the cookie, and forms of another session are refused.
func TestLogOut(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "on-call")
	w.provider.set("eve", "on-call")
	b, other := newBrowser(t), newBrowser(t)
	b.login(w.url, "anna")
	other.login(w.url, "eve")
	form := func(b browser) string {
		return formValue.FindStringSubmatch(b.get(w.url + "/alerts").body)[1]
	}
	for _, value := range []string{"", "x", form(other)} {
		for _, path := range []string{"/logout", "/silences", "/alerts/x/acknowledge", "/views"} {
			must.Equal(t, b.do(http.MethodPost, w.url+path, url.Values{"form": {value}}).code, http.StatusForbidden, "%s", path)
		}
	}
	must.Equal(t, w.who(b), "Anna Example responder", "after forged forms")
	stolen := newBrowser(t)
	u := must.Get(url.Parse(w.url + "/"))(t)
	for _, c := range b.Jar.Cookies(u) {
		stolen.Jar.SetCookies(u, []*http.Cookie{{Name: c.Name, Value: c.Value, Path: "/"}})
	}
	must.Equal(t, w.who(stolen), "Anna Example responder", "a copy of the cookie")
	must.Equal(t, b.do(http.MethodPost, w.url+"/logout", url.Values{"form": {form(b)}}).code, http.StatusSeeOther, "log-out")
	must.Equal(t, w.who(b), toLogin, "logged out")
	must.Equal(t, w.who(stolen), again, "a copy of the cookie after log-out")
	must.Equal(t, w.who(other), "Eve Example responder", "others")
}

// A log-out in another process during a renewal is not undone by it. In the same process, a log-out waits for the renewal.
func TestLogOutDuringRenewal(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "staff")
	b := newBrowser(t)
	b.login(w.url, "anna")
	w.pass(access.SessionTime + time.Minute)
	w.provider.change(func() {
		w.provider.tamper = func(id string) string { // while the provider answers
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			clear(w.store.values)
			return id
		}
	})
	must.Equal(t, w.who(b), again, "after the log-out")
	must.Equal(t, len(w.store.values), 0, "stored sessions")
}

// Forged ID tokens start no session.
func TestForged(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "staff")
	w.provider.set("eve", "other")
	own := must.Get(w.provider.SigningKey(t.Context()))(t)
	good := jose.SigningKey{Algorithm: jose.RS256, Key: own.Key()}
	stranger := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	bad := func(claim string, value any) func(string) string {
		return func(id string) string {
			return forge(t, id, good, own.ID(), func(c map[string]any) { c[claim] = value })
		}
	}
	for name, tamper := range map[string]func(string) string{
		"wrong key": func(id string) string {
			return forge(t, id, jose.SigningKey{Algorithm: jose.RS256, Key: stranger}, own.ID(), func(c map[string]any) { c["groups"] = []string{"platform"} })
		},
		"the secret of the client as the key": func(id string) string {
			return forge(t, id, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat(clientSecret, 2))}, own.ID(), func(map[string]any) {})
		},
		"alg none": func(id string) string {
			return "eyJhbGciOiJub25lIn0." + strings.Split(id, ".")[1] + "."
		},
		"changed payload": func(id string) string {
			parts := strings.Split(id, ".")
			return parts[0] + "." + strings.Split(bad("groups", []string{"platform"})(id), ".")[1] + "." + parts[2]
		},
		"wrong audience": bad("aud", []string{"another-client"}),
		"wrong issuer":   bad("iss", "https://evil.example"),
		"expired":        bad("exp", time.Now().Add(-time.Hour).Unix()),
		"another nonce":  bad("nonce", "of-another-log-in"),
		"no nonce":       bad("nonce", nil),
		"empty":          func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			w.provider.change(func() { w.provider.tamper = tamper })
			b := newBrowser(t)
			a := b.login(w.url, "anna")
			must.Equal(t, a.code, http.StatusForbidden, "status")
			must.Contain(t, a.body, "ID token")
			if cookies := strings.Join(a.heads["Set-Cookie"], "\n"); strings.Contains(cookies, access.SessionCookie+"=") {
				t.Errorf("cookies %s", cookies)
			}
			must.Equal(t, w.who(b), toLogin, "who")
		})
	}
	// The check of the test: a token that is forged in nothing is accepted.
	w.provider.change(func() { w.provider.tamper = bad("groups", []string{"staff"}) })
	b := newBrowser(t)
	b.login(w.url, "anna")
	must.Equal(t, w.who(b), "Anna Example viewer", "nothing forged")
	// A renewal is about the same person.
	w.provider.change(func() { w.provider.tamper = bad("sub", "eve") })
	w.pass(access.SessionTime + time.Minute)
	must.Equal(t, w.who(b), again, "renewed as another person")
}

// A log-in ends once, in the browser in which it has begun, within 10 minutes.
func TestReplay(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "staff")
	refused := func(b browser, callback, what string) {
		t.Helper()
		before := w.provider.exchanges()
		a := b.get(callback)
		must.Equal(t, a.code, http.StatusForbidden, "%s", what)
		must.Contain(t, a.body, "was not begun in this browser")
		must.Equal(t, w.provider.exchanges(), before, "requests of tokens: %s", what)
	}
	start := w.url + "/login/start?next=/alerts"
	b := newBrowser(t)
	callback := b.callback(start, "anna")
	refused(newBrowser(t), callback, "in another browser")
	saved := b.Jar.Cookies(must.Get(url.Parse(callback))(t))
	must.Equal(t, b.get(callback).code, http.StatusSeeOther, "first")
	refused(b, callback, "twice")
	for _, c := range saved {
		b.Jar.SetCookies(must.Get(url.Parse(callback))(t), []*http.Cookie{c})
	}
	refused(b, callback, "twice, with the cookie")

	// The code of another person, in a browser with a log-in of its own.
	victim, attacker := newBrowser(t), newBrowser(t)
	w.provider.set("eve", "platform")
	stolen := must.Get(url.Parse(attacker.callback(start, "eve")))(t)
	own := must.Get(url.Parse(victim.callback(start, "anna")))(t)
	q := own.Query()
	q.Set("code", stolen.Query().Get("code"))
	own.RawQuery = q.Encode()
	a := victim.get(own.String())
	must.Equal(t, a.code, http.StatusForbidden, "a code of another log-in: PKCE")
	must.Equal(t, w.who(victim), toLogin, "a code of another log-in")

	for _, query := range []string{"", "?state=", "?code=x&state=x", "?error=access_denied&state=x"} {
		refused(newBrowser(t), w.url+web.CallbackPath+query, query)
	}
	late := newBrowser(t)
	callback = late.callback(start, "anna")
	w.pass(11 * time.Minute)
	refused(late, callback, "too late")

	// Several tabs at once.
	tabs := newBrowser(t)
	first, second := tabs.callback(start, "anna"), tabs.callback(start, "anna")
	must.Equal(t, tabs.get(first).code, http.StatusSeeOther, "first tab")
	must.Equal(t, tabs.get(second).code, http.StatusSeeOther, "second tab")
	must.Equal(t, w.who(tabs), "Anna Example viewer", "two tabs")
}

// A log-in never leads to another site.
func TestOpenRedirect(t *testing.T) {
	w := newWorld(t, nil)
	w.provider.set("anna", "staff")
	for _, next := range []string{"https://evil.example", "//evil.example", "/%5Cevil.example", "/%09/evil.example", "javascript:alert(1)", "///evil.example", "/%0d%0aSet-Cookie:x=y"} {
		b := newBrowser(t)
		a := b.get(b.callback(w.url+"/login/start?next="+next, "anna"))
		must.Equal(t, a.to, w.url+"/", "%s", next)
		must.Equal(t, b.get(w.url+"/login?next="+next).to, w.url+"/", "%s", next)
	}
}

// Each route needs the role that it names: with a lower one, and without a session, it is refused.
func TestPageRoles(t *testing.T) {
	w := newWorld(t, nil)
	roles := map[access.Role]browser{access.Public: newBrowser(t)}
	for role, group := range map[access.Role]string{access.Viewer: "staff", access.Responder: "on-call", access.Admin: "platform"} {
		w.provider.set("anna", group)
		roles[role] = newBrowser(t)
		roles[role].login(w.url, "anna")
	}
	public := map[string]bool{"GET /login": true, "GET /login/start": true, "GET /login/callback": true, "POST /login": true, "POST /logout": true, "GET /static/": true}
	checkRoutes(t, w.pages.Routes(), public, func(role access.Role, method, path string) int {
		b := roles[role]
		form := url.Values{}
		if role > access.Public && method == http.MethodPost {
			form.Set("form", formValue.FindStringSubmatch(b.get(w.url + "/alerts").body)[1])
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := must.Get(http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(form.Encode())))(t)
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp := must.Get(b.Do(r))(t)
		defer resp.Body.Close()
		return resp.StatusCode
	})
}

// checkRoutes requests each route as each role. Only those in public may be public, and what changes something needs a responder.
func checkRoutes(t *testing.T, routes map[string]access.Role, public map[string]bool, request func(role access.Role, method, path string) int) {
	t.Helper()
	if len(routes) < 10 {
		t.Fatalf("routes %v", routes)
	}
	variable := regexp.MustCompile(`\{[^$}]+\}`)
	for pattern, needs := range routes {
		if (needs == access.Public) != public[pattern] {
			t.Errorf("%s needs the role %s", pattern, needs)
		}
		if needs == access.Public {
			continue
		}
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodPost, pattern
		}
		path = variable.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "x")
		for role := access.Public; role <= access.Admin; role++ {
			code := request(role, method, path)
			switch {
			case role == access.Public && code != http.StatusUnauthorized:
				t.Errorf("%s without credentials: %d", pattern, code)
			case role > access.Public && role < needs && code != http.StatusForbidden:
				t.Errorf("%s as %s, needs %s: %d", pattern, role, needs, code)
			case role >= needs && (code == http.StatusForbidden || code == http.StatusUnauthorized):
				t.Errorf("%s as %s, needs %s: %d", pattern, role, needs, code)
			}
		}
	}
}

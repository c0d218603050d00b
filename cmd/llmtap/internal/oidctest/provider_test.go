package oidctest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The client that llmtap is at the provider.
const (
	clientID     = "llmtap"
	clientSecret = "the-secret-of-the-client"
	password     = "correct horse"
)

// A provider is a real OpenID provider with people whom tests change.
type provider struct {
	*storage.Storage
	*httptest.Server

	thin bool // ID tokens have no claims about people, which are then in the user info only

	mu     sync.Mutex          // guards the rest
	people map[string][]string // groups by name
	tamper func(idToken string) string
	down   bool
	tokens int        // requests of tokens
	asked  url.Values // of the last request for a page to log in
}

func newProvider(t *testing.T, redirect string) *provider {
	t.Helper()
	p := &provider{people: map[string][]string{}}
	p.Server = httptest.NewUnstartedServer(nil)
	p.Start()
	t.Cleanup(p.Close)
	p.Storage = storage.NewStorageWithClients(p, map[string]*storage.Client{clientID: storage.WebClient(clientID, clientSecret, redirect)})
	server := exampleop.SetupServer(p.URL, p, slog.New(slog.DiscardHandler), false)
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, server) })
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p.mu.Lock()
	down, tamper := p.down, p.tamper
	switch r.URL.Path {
	case "/auth":
		p.asked = r.URL.Query()
	case "/oauth/token":
		p.tokens++
	}
	p.mu.Unlock()
	switch {
	case down:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case tamper != nil && r.URL.Path == "/oauth/token":
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		var answer map[string]any
		if json.Unmarshal(rec.Body.Bytes(), &answer) == nil && answer["id_token"] != nil {
			answer["id_token"] = tamper(answer["id_token"].(string))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(rec.Code)
		_ = json.NewEncoder(w).Encode(answer) // the client may leave
	default:
		next.ServeHTTP(w, r)
	}
}

// set sets the groups of a person; nil removes the person.
func (p *provider) set(name string, groups ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if groups == nil {
		delete(p.people, name)
		return
	}
	p.people[name] = groups
}

// exchanges returns the number of requests of tokens.
func (p *provider) exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens
}

func (p *provider) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// GetUserByID implements storage.UserStore.
func (p *provider) GetUserByID(id string) *storage.User {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.people[id]; !ok {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: password, FirstName: strings.ToUpper(id[:1]) + id[1:], LastName: "Example", Email: id + "@example.com", EmailVerified: true}
}

// GetUserByUsername implements storage.UserStore.
func (p *provider) GetUserByUsername(name string) *storage.User { return p.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (p *provider) ExampleClientID() string { return "none" }

// withGroups adds the claim groups.
func (p *provider) withGroups(info *oidc.UserInfo, id string, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if groups, ok := p.people[id]; ok && err == nil {
		info.AppendClaims("groups", groups)
	}
	return err
}

func (p *provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	err := p.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
	if p.thin {
		return err
	}
	return p.withGroups(info, token.GetSubject(), err)
}

func (p *provider) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	return p.withGroups(info, subject, p.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin))
}

// A fatClient asks for ID tokens with the claims about people.
type fatClient struct{ op.Client }

func (fatClient) IDTokenUserinfoClaimsAssertion() bool { return true }

func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil || p.thin {
		return c, err
	}
	return fatClient{c}, nil
}

// TokenRequestByRefreshToken refuses people who were removed, as providers do.
func (p *provider) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := p.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil || p.GetUserByID(r.GetSubject()) == nil {
		return nil, op.ErrInvalidRefreshToken
	}
	return r, nil
}

// forge returns an ID token with changed claims, signed with a key.
func forge(t *testing.T, idToken string, key jose.SigningKey, keyID string, change func(claims map[string]any)) string {
	t.Helper()
	signed := must.Get(jose.ParseSignedCompact(idToken, []jose.SignatureAlgorithm{jose.RS256}))(t)
	claims := must.JSON[map[string]any](t, signed.UnsafePayloadWithoutVerification())
	change(claims)
	signer := must.Get(jose.NewSigner(key, (&jose.SignerOptions{}).WithHeader("kid", keyID)))(t)
	out := must.Get(signer.Sign(must.Get(json.Marshal(claims))(t)))(t)
	return must.Get(out.CompactSerialize())(t)
}

// A browser keeps cookies, and follows no redirect by itself.
type browser struct {
	t *testing.T
	*http.Client
}

// jar is http.CookieJar with the cookies of 127.0.0.1, whatever their port: as in a browser.
type jar struct {
	mu      sync.Mutex
	cookies map[string]*http.Cookie
}

func (j *jar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range cookies {
		if j.cookies[u.Port()+c.Name] = c; c.MaxAge < 0 {
			delete(j.cookies, u.Port()+c.Name)
		}
	}
}

func (j *jar) Cookies(u *url.URL) (out []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, c := range j.cookies {
		if key == u.Port()+c.Name && (c.Path == "" || strings.HasPrefix(u.Path, c.Path)) {
			out = append(out, &http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	return out
}

func newBrowser(t *testing.T) browser {
	return browser{t, &http.Client{Jar: &jar{cookies: map[string]*http.Cookie{}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// An answer is what a browser got.
type answer struct {
	code  int
	to    string // absolute URL of a redirect
	body  string
	heads http.Header
}

func (b browser) do(method, to string, form url.Values) answer {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := must.Get(http.NewRequestWithContext(b.t.Context(), method, to, body))(b.t)
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp := must.Get(b.Do(r))(b.t)
	defer resp.Body.Close()
	out := answer{code: resp.StatusCode, body: string(must.Get(io.ReadAll(resp.Body))(b.t)), heads: resp.Header}
	if l, err := resp.Location(); err == nil {
		out.to = l.String()
	}
	return out
}

func (b browser) get(to string) answer { b.t.Helper(); return b.do(http.MethodGet, to, nil) }

// callback goes from a URL to the page of the provider, logs in there, and returns the URL of the callback with the code.
func (b browser) callback(from, name string) string {
	b.t.Helper()
	a := b.get(from) // to the provider
	a = b.get(a.to)  // to its page
	id := must.Get(url.Parse(a.to))(b.t).Query().Get("authRequestID")
	page, _, _ := strings.Cut(a.to, "?")
	a = b.do(http.MethodPost, page, url.Values{"username": {name}, "password": {password}, "id": {id}})
	if a.code != http.StatusFound {
		b.t.Fatalf("the provider does not log in %s: %d %s", name, a.code, a.body)
	}
	return b.get(a.to).to
}

// login logs in, and returns the answer of the callback.
func (b browser) login(base, name string) answer {
	b.t.Helper()
	return b.get(b.callback(base+"/login/start?next=/alerts", name))
}

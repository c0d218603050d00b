package access

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// SessionCookie is the cookie with the id of a session. Web pages use it for sessions of tokens, too, which have another form.
	SessionCookie = "llmtap_session"
	// sessionKey is the prefix of the keys of stored sessions.
	sessionKey = "session."
	// idPrefix begins ids of sessions.
	idPrefix = "s-"
	// SessionTime is the time after which the provider is asked again who a person is.
	SessionTime = time.Hour
	// maxSession is the time after which a person must log in again. Until then, the browser remembers that there was a session.
	maxSession = 7 * 24 * time.Hour
	// graceTime is the time for which a session continues while the provider does not answer: on-call people need the pages then, too.
	graceTime = time.Hour
	// retryTime is the time between two attempts to reach it.
	retryTime = 30 * time.Second
)

// A session is the session of a person in one browser. Values are never changed.
type session struct {
	Person  Person    `json:"person"`
	Until   time.Time `json:"until"` // renewed then
	End     time.Time `json:"end"`
	Refresh []byte    `json:"refresh,omitempty"` // the refresh token, encrypted with a key that only the browser has

	stored []byte // value in the store
}

// Sessions are those of people who have logged in at a provider. A nil *Sessions has none.
type Sessions struct {
	provider *provider
	store    Store
	key      []byte // signs log-ins
	secure   bool   // cookies are for HTTPS only
	now      func() time.Time
	logger   *slog.Logger

	mu       sync.Mutex
	byKey    map[string]session
	used     map[string]time.Time   // states of log-ins that have ended, and when they expire
	renewing map[string]*sync.Mutex // held while a session is being renewed
	retry    map[string]time.Time   // when to ask a provider again that did not answer
}

// Options are those of NewSessions.
type Options struct {
	Config   Config // with the secret of the client, and without its file
	Policy   Policy
	Redirect string // URL of the callback
	Store    Store
	Key      []byte           // signs cookies of log-ins, the same in all processes; nil: a random one
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger
}

// NewSessions returns the sessions in a store, of which it is told by Replace and Change.
func NewSessions(o Options) *Sessions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Key == nil {
		o.Key = []byte(random())
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sessions{
		provider: newProvider(o.Config, o.Policy, o.Redirect), store: o.Store, key: o.Key, secure: strings.HasPrefix(o.Redirect, "https:"), now: o.Now, logger: o.Logger,
		byKey: map[string]session{}, used: map[string]time.Time{}, renewing: map[string]*sync.Mutex{}, retry: map[string]time.Time{},
	}
}

// Keys is the pattern of the keys whose values Replace and Change want.
func (s *Sessions) Keys() string { return sessionKey + "*" }

// Replace replaces all sessions by the stored values.
func (s *Sessions) Replace(values map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byKey)
	for key, value := range values {
		s.set(key, value)
	}
}

// Change sets the session with a key, or ends it if value is nil.
func (s *Sessions) Change(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, value)
}

func (s *Sessions) set(key string, value []byte) {
	var x session
	if json.Unmarshal(value, &x) != nil || x.Person.Role == Public { // ended
		delete(s.byKey, key)
		delete(s.renewing, key)
		delete(s.retry, key)
		return
	}
	x.stored = value
	s.byKey[key] = x
}

func (s *Sessions) get(key string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.byKey[key]
	return x, ok
}

// put stores a session instead of the one that it was before. While the store does not answer, only this process knows it. It returns
// ErrConflict if another process has renewed or ended it.
func (s *Sessions) put(ctx context.Context, key string, x session) error {
	value, err := json.Marshal(x)
	if err != nil {
		return err
	}
	err = s.store.Replace(ctx, key, x.stored, value)
	if errors.Is(err, ErrConflict) {
		return err
	}
	if err != nil {
		s.logger.Warn("a session is only known to this process", "person", x.Person.Name, "err", err)
	}
	s.Change(key, value)
	return nil
}

// reread returns what another process has made of a session.
func (s *Sessions) reread(ctx context.Context, key string) (Person, bool) {
	value, err := s.store.Get(ctx, key)
	if err != nil {
		return Person{}, false
	}
	s.Change(key, value)
	x, ok := s.get(key)
	return x.Person, ok && s.now().Before(x.Until)
}

// Finish answers the request to the callback: it starts a session, and returns the path to which the log-in leads.
func (s *Sessions) Finish(w http.ResponseWriter, r *http.Request) (next string, err error) {
	l, err := s.begun(w, r)
	if err != nil {
		return "/", err
	}
	q := r.URL.Query()
	if q.Get("error") != "" {
		return l.Next, fmt.Errorf("the provider refuses: %.100s %.300s", q.Get("error"), q.Get("error_description"))
	}
	// RFC 9207: an answer of another provider is not for us.
	if iss := q.Get("iss"); iss != "" && iss != s.provider.cfg.Issuer {
		return l.Next, errors.New("another provider has answered")
	}
	p, refresh, err := s.provider.exchange(r.Context(), q.Get("code"), l)
	if err != nil {
		s.logger.Warn("a log-in failed", "err", err)
		return l.Next, err
	}
	s.sweep(r.Context())
	if old, ok := cookieKey(r); ok { // a new session has a new id
		s.remove(r.Context(), old)
	}
	id, now := idPrefix+random(), s.now()
	x := session{Person: p, Until: now.Add(SessionTime), End: now.Add(maxSession), Refresh: seal(id, refresh)}
	if err := s.put(r.Context(), keyOf(id), x); err != nil {
		return l.Next, err
	}
	loggedIn(r.Context(), p)
	http.SetCookie(w, &http.Cookie{
		Name: SessionCookie, Value: id, Path: "/", MaxAge: int(maxSession.Seconds()), HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteLaxMode, // Strict would ask everyone who follows a link from Slack to log in
	})
	return l.Next, nil
}

func keyOf(id string) string { return sessionKey + hash(id) }

// cookieKey returns the key of the session of r.
func cookieKey(r *http.Request) (string, bool) {
	c, err := r.Cookie(SessionCookie)
	if err != nil || !strings.HasPrefix(c.Value, idPrefix) {
		return "", false
	}
	return keyOf(c.Value), true
}

// Known reports whether the browser had a session, so that it may log in again without being asked.
func (s *Sessions) Known(r *http.Request) bool {
	_, ok := cookieKey(r)
	return s != nil && ok
}

// Person returns whose session r belongs to. A session that must be renewed is renewed.
func (s *Sessions) Person(r *http.Request) (Person, bool) {
	if s == nil {
		return Person{}, false
	}
	key, ok := cookieKey(r)
	if !ok {
		return Person{}, false
	}
	x, ok := s.get(key)
	now := s.now()
	switch {
	case !ok || !now.Before(x.End):
		return Person{}, false
	case now.Before(x.Until):
		return x.Person, true
	case x.Refresh == nil:
		return Person{}, false
	}
	c, _ := r.Cookie(SessionCookie) // cookieKey has found it
	return s.renew(context.WithoutCancel(r.Context()), key, c.Value)
}

// renew asks the provider who the person of a session is now.
func (s *Sessions) renew(ctx context.Context, key, id string) (Person, bool) {
	s.mu.Lock()
	one := s.renewing[key]
	if one == nil {
		one = new(sync.Mutex)
		s.renewing[key] = one
	}
	s.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	x, ok := s.get(key)
	now := s.now()
	if !ok || now.Before(x.Until) { // another request was first
		return x.Person, ok
	}
	s.mu.Lock()
	wait := now.Before(s.retry[key])
	s.mu.Unlock()
	inGrace := now.Before(x.Until.Add(graceTime))
	if wait {
		return x.Person, inGrace
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	p, refresh, err := s.provider.renew(ctx, unseal(id, x.Refresh), x.Person.Subject)
	switch {
	case err == nil:
		x.Person, x.Until, x.Refresh = p, now.Add(SessionTime), seal(id, refresh)
		if err := s.put(ctx, key, x); err != nil { // renewed, or ended by a log-out meanwhile
			return s.reread(ctx, key)
		}
		return p, true
	case errors.Is(err, errUnreachable):
		s.logger.Warn("a session cannot be renewed yet", "person", x.Person.Name, "err", err)
		s.mu.Lock()
		s.retry[key] = now.Add(retryTime)
		s.mu.Unlock()
		return x.Person, inGrace
	}
	// Another process may have used the refresh token, which is often valid once.
	if p, ok := s.reread(ctx, key); ok {
		return p, true
	}
	s.logger.Info("a session has ended", "person", x.Person.Name, "subject", x.Person.Subject, "err", err)
	s.remove(ctx, key)
	return Person{}, false
}

// End ends the session of r, if there is one.
func (s *Sessions) End(r *http.Request) {
	if key, ok := cookieKey(r); s != nil && ok {
		s.remove(r.Context(), key)
	}
}

func (s *Sessions) remove(ctx context.Context, key string) {
	x, ok := s.get(key)
	if !ok {
		return
	}
	s.Change(key, nil)
	if err := s.store.Delete(ctx, key); err != nil {
		s.logger.Error("a session has ended in this process only", "person", x.Person.Name, "err", err)
	}
}

// sweep removes sessions that have ended by themselves.
func (s *Sessions) sweep(ctx context.Context) {
	var old []string
	now := s.now()
	s.mu.Lock()
	for key, x := range s.byKey {
		if !now.Before(x.End) || x.Refresh == nil && !now.Before(x.Until) {
			old = append(old, key)
		}
	}
	s.mu.Unlock()
	for _, key := range old {
		s.remove(ctx, key)
	}
}

// sealing returns the cipher of the session with an id.
func sealing(id string) cipher.AEAD {
	key := sha256.Sum256([]byte("llmtap refresh token " + id))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has 16 bytes
	}
	return aead
}

// seal encrypts the refresh token of the session with an id. There is none if it is empty.
func seal(id, refresh string) []byte {
	if refresh == "" {
		return nil
	}
	return sealing(id).Seal(nil, nil, []byte(refresh), []byte(keyOf(id)))
}

// unseal is the inverse of seal; "" if it was sealed with another id.
func unseal(id string, sealed []byte) string {
	text, err := sealing(id).Open(nil, nil, sealed, []byte(keyOf(id)))
	if err != nil {
		return ""
	}
	return string(text)
}

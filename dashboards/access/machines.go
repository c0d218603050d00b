package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// tokenPrefix begins the tokens of machines, so that scanners of secrets find them.
	tokenPrefix = "llmtap_"
	// tokenKey is the prefix of the keys of stored tokens.
	tokenKey = "token."
	// maxTokens bounds the tokens, which every process has in memory.
	maxTokens = 10_000
	// maxExpiry is the longest time until a token expires.
	maxExpiry = 10 * 366 * 24 * time.Hour
)

// Errors of tokens.
var (
	ErrNoToken  = errors.New("there is no token of this name")
	ErrTokenSet = errors.New("there is a token of this name already: revoke it first, or choose another name")
)

// ErrConflict is returned by a Store if the value of the key is another one.
var ErrConflict = errors.New("another process has changed the value")

// A Store stores sessions and tokens for all processes.
type Store interface {
	// Replace sets key if its value is old, or if there is none and old is nil. Otherwise it returns ErrConflict.
	Replace(ctx context.Context, key string, old, value []byte) error
	// Get returns nil if there is no key.
	Get(ctx context.Context, key string) ([]byte, error)
	// Delete removes key. Watchers of all processes are notified.
	Delete(ctx context.Context, key string) error
}

// A Token is a token of a machine, without the secret.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	By      string    `json:"by,omitempty"`    // who made it, if known
	Teams   []string  `json:"teams,omitempty"` // whose services it sees; empty: all services
}

// A storedToken is a token in the store. The secret is a random number of 256 bits, which nobody can guess; so a plain SHA-256 is
// enough, unlike for passwords.
type storedToken struct {
	Token

	Hash string `json:"hash"` // hex
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns an error if t cannot be made at a time.
func (t *Token) Validate(now time.Time) error {
	switch {
	case !tokenName.MatchString(t.Name):
		return fmt.Errorf("name %.80q: use 1 to 64 letters, digits, _ and -", t.Name)
	case t.Role < Viewer || t.Role > Admin:
		return fmt.Errorf("role: is required: one of %s", strings.Join(Roles, ", "))
	case len(t.Teams) > 0 && t.Role == Admin:
		return errors.New("teams: an admin sees all services: choose another role, or no team")
	case !t.Expires.After(now):
		return errors.New("expires: is in the past")
	case t.Expires.Sub(now) > maxExpiry:
		return errors.New("expires: is more than 10 years away")
	}
	return nil
}

// Machines are the tokens of machines. A nil *Machines has none.
type Machines struct {
	store Store
	now   func() time.Time

	mu     sync.RWMutex
	byName map[string]storedToken
	byHash map[string]string // names
}

// NewMachines returns the tokens in store, of which it is told by Replace and Change.
func NewMachines(store Store, now func() time.Time) *Machines {
	return &Machines{store: store, now: now, byName: map[string]storedToken{}, byHash: map[string]string{}}
}

// Keys is the pattern of the keys whose values Replace and Change want.
func (m *Machines) Keys() string { return tokenKey + "*" }

// Replace replaces all tokens by the stored values.
func (m *Machines) Replace(values map[string][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byName, m.byHash = map[string]storedToken{}, map[string]string{}
	for key, value := range values {
		m.set(key, value)
	}
}

// Change sets the token with a key, or removes it if value is nil.
func (m *Machines) Change(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, value)
}

func (m *Machines) set(key string, value []byte) {
	name := strings.TrimPrefix(key, tokenKey)
	delete(m.byHash, m.byName[name].Hash)
	delete(m.byName, name)
	var t storedToken
	if json.Unmarshal(value, &t) != nil || t.Name != name { // deleted, or not from here: it opens nothing
		return
	}
	m.byName[name], m.byHash[t.Hash] = t, name
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// person returns the machine with a token, unless it has expired or was revoked.
func (m *Machines) person(token string) (Person, bool) {
	if m == nil {
		return Person{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	name, ok := m.byHash[hash(token)] // a lookup by a hash tells an attacker nothing about the token
	t := m.byName[name]
	if !ok || !m.now().Before(t.Expires) {
		return Person{}, false
	}
	return Person{Name: "token " + t.Name, Subject: tokenKey + t.Name, Role: t.Role, Machine: true, Teams: t.Teams}, true
}

// List returns the tokens by name, expired ones too.
func (m *Machines) List() []Token {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := []Token{}
	for _, t := range m.byName {
		out = append(out, t.Token)
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Create stores a token, sets when it was created, and returns its secret, which nobody can read again.
func (m *Machines) Create(ctx context.Context, t *Token) (secret string, err error) {
	t.Created = m.now().UTC()
	if err := t.Validate(t.Created); err != nil {
		return "", err
	}
	if len(m.List()) >= maxTokens {
		return "", fmt.Errorf("there are %d tokens: revoke those that are not used any more", maxTokens)
	}
	secret = tokenPrefix + random()
	value, err := json.Marshal(storedToken{*t, hash(secret)})
	if err != nil {
		return "", err
	}
	if err := m.store.Replace(ctx, tokenKey+t.Name, nil, value); errors.Is(err, ErrConflict) {
		return "", ErrTokenSet
	} else if err != nil {
		return "", err
	}
	m.Change(tokenKey+t.Name, value)
	return secret, nil
}

// Revoke removes the token with a name, for all processes.
func (m *Machines) Revoke(ctx context.Context, name string) error {
	m.mu.RLock()
	_, ok := m.byName[name]
	m.mu.RUnlock()
	if !ok {
		return ErrNoToken
	}
	if err := m.store.Delete(ctx, tokenKey+name); err != nil {
		return err
	}
	m.Change(tokenKey+name, nil)
	return nil
}

// random returns 256 random bits as text.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// providerTimeout bounds a request to the provider.
	providerTimeout = 10 * time.Second
	// openInterval is the minimum time between two attempts to find a provider that does not answer: anybody may begin a log-in.
	openInterval = 2 * time.Second
	// maxName is the maximum length of the name of a person, in bytes.
	maxName = 80
)

// A DeniedError means that the provider knows the person, who has no role here.
type DeniedError struct {
	Name  string // of the person
	Claim string // with the groups
	Asked string // groups that have a role, in words
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s is in none of the groups that may use llmtap: %s. The provider names groups in the claim %s", e.Name, e.Asked, e.Claim)
}

// errUnreachable means that the provider did not answer.
var errUnreachable = errors.New("the provider does not answer")

// A provider asks an OpenID provider who a person is.
type provider struct {
	cfg      Config
	policy   Policy
	redirect string // URL of the callback
	client   *http.Client

	mu         sync.Mutex
	discovered *oidc.Provider // nil until it has answered
	failure    error          // of the last attempt
	failed     time.Time      // when that was
}

func newProvider(cfg Config, policy Policy, redirect string) *provider {
	return &provider{cfg: cfg, policy: policy, redirect: redirect, client: &http.Client{Timeout: providerTimeout}}
}

// open returns the provider's endpoints. A collector starts without its provider, so they are read at the first log-in.
func (p *provider) open(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil {
		if time.Since(p.failed) < openInterval {
			return nil, nil, p.failure
		}
		found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
		if err != nil {
			p.failure, p.failed = fmt.Errorf("%w: %w", errUnreachable, err), time.Now()
			return nil, nil, p.failure
		}
		p.discovered = found
	}
	return p.discovered, &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: p.discovered.Endpoint(), RedirectURL: p.redirect, Scopes: p.cfg.Scopes,
	}, nil
}

// authURL returns the page of the provider on which a person logs in.
func (p *provider) authURL(ctx context.Context, l login) (string, error) {
	_, o, err := p.open(ctx)
	if err != nil {
		return "", err
	}
	return o.AuthCodeURL(l.state(), oidc.Nonce(l.nonce()), oauth2.S256ChallengeOption(l.verifier())), nil
}

// exchange returns the person who has logged in, and the refresh token if there is one.
func (p *provider) exchange(ctx context.Context, code string, l login) (person Person, refresh string, err error) {
	_, o, err := p.open(ctx)
	if err != nil {
		return Person{}, "", err
	}
	t, err := o.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(l.verifier()))
	if err != nil {
		return Person{}, "", answered(err)
	}
	person, err = p.identify(ctx, t, func(id *oidc.IDToken) error {
		if !equal(id.Nonce, l.nonce()) {
			return errors.New("the nonce of the ID token is another one")
		}
		return nil
	})
	return person, t.RefreshToken, err
}

// renew returns the person of a refresh token as the provider knows them now, and the next refresh token.
func (p *provider) renew(ctx context.Context, refresh, subject string) (person Person, next string, err error) {
	_, o, err := p.open(ctx)
	if err != nil {
		return Person{}, "", err
	}
	t, err := o.TokenSource(oidc.ClientContext(ctx, p.client), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return Person{}, "", answered(err)
	}
	person, err = p.identify(ctx, t, nil)
	if err == nil && person.Subject != subject {
		err = errors.New("the provider has renewed the session of another person")
	}
	return person, cmp.Or(t.RefreshToken, refresh), err
}

// answered adds errUnreachable to an error of a request to the provider that it has not judged.
func answered(err error) error {
	_, failed := errors.AsType[*url.Error](err)
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		failed = e.ErrorCode == "" && e.Response.StatusCode >= http.StatusInternalServerError // of a proxy before it
	}
	if failed {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return fmt.Errorf("the provider refuses: %w", err)
}

// identify returns the person of t: by its ID token, and by the user info if the ID token lacks the groups or a name, or there is none after a
// renewal.
func (p *provider) identify(ctx context.Context, t *oauth2.Token, check func(*oidc.IDToken) error) (Person, error) {
	found, _, err := p.open(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	claims := map[string]any{}
	raw, ok := t.Extra("id_token").(string)
	switch {
	case ok:
		id, err := found.VerifierContext(ctx, &oidc.Config{ClientID: p.cfg.ClientID}).Verify(ctx, raw)
		if err == nil && check != nil {
			err = check(id)
		}
		if err == nil {
			err = id.Claims(&claims)
		}
		if err != nil {
			return Person{}, fmt.Errorf("the ID token of the provider is not valid: %w", err)
		}
	case check != nil:
		return Person{}, errors.New("the answer of the provider has no ID token")
	}
	named := claims["name"] != nil || claims["preferred_username"] != nil || claims["email"] != nil
	if (claims[p.cfg.GroupsClaim] == nil || !named) && found.UserInfoEndpoint() != "" {
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(t))
		if err != nil {
			return Person{}, answered(err)
		}
		if ok && info.Subject != claims["sub"] {
			return Person{}, errors.New("the user info of the provider is about another person")
		}
		if err := info.Claims(&claims); err != nil { // adds to claims
			return Person{}, fmt.Errorf("the user info of the provider is not valid: %w", err)
		}
	}
	return p.person(claims)
}

// person returns the person with these claims, or a *DeniedError.
func (p *provider) person(claims map[string]any) (Person, error) {
	text := func(claim string) string {
		s, _ := claims[claim].(string)
		return strings.TrimSpace(s)
	}
	person := Person{Subject: text("sub"), Name: cmp.Or(text("name"), text("preferred_username"), text("email"), text("sub"))}
	if person.Subject == "" {
		return Person{}, errors.New("the provider does not say who this is: there is no claim sub")
	}
	for len(person.Name) > maxName {
		person.Name = string([]rune(person.Name)[:len([]rune(person.Name))-1])
	}
	var groups []string
	switch v := claims[p.cfg.GroupsClaim].(type) {
	case string:
		// Anybody may type any address at some providers.
		if p.cfg.GroupsClaim != "email" || claims["email_verified"] == true {
			groups = []string{v}
		}
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				groups = append(groups, s)
			}
		}
	}
	person.Role, person.Groups = p.cfg.Roles.role(groups)
	if person.Role == Public {
		return Person{}, &DeniedError{person.Name, p.cfg.GroupsClaim, p.cfg.Roles.String()}
	}
	for _, g := range p.policy.groups(groups) {
		if !slices.Contains(person.Groups, g) {
			person.Groups = append(person.Groups, g)
		}
	}
	return person, nil
}

package access

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestValidate(t *testing.T) {
	f := func(want string, change func(c *Config)) {
		t.Helper()
		c := Default()
		c.Issuer, c.ClientID, c.Roles.Viewer = "https://login.example.com", "llmtap", []string{"staff"}
		change(&c)
		if err := c.Validate(); want == "" {
			must.Do(t, err)
		} else {
			must.Fail(t, err, want, want)
		}
	}
	f("", func(*Config) {})
	f("", func(c *Config) { *c = Default() })
	f("", func(c *Config) { c.Issuer = "http://127.0.0.1:5556/dex" })
	f("issuer: is required", func(c *Config) { c.Issuer = "" })
	f("issuer: ", func(c *Config) { c.Issuer = "http://login.example.com" })
	f("issuer: ", func(c *Config) { c.Issuer = "login.example.com" })
	f("issuer: ", func(c *Config) { c.Issuer = "https://login.example.com?x=1" })
	f("client_id: is required", func(c *Config) { c.ClientID = "" })
	f("client_secret, client_secret_file: both are set", func(c *Config) { c.ClientSecret, c.ClientSecretFile = "a", "b" })
	f("scopes: openid is missing", func(c *Config) { c.Scopes = []string{"email"} })
	f("groups_claim: is empty", func(c *Config) { c.GroupsClaim = "" })
	f("roles: are empty", func(c *Config) { c.Roles = Groups{} })
	f("roles: a group has no name", func(c *Config) { c.Roles.Admin = []string{""} })
}

// Only addresses that the provider has verified are groups.
func TestClaims(t *testing.T) {
	f := func(claims map[string]any, claim string, groups Groups, want Role) {
		t.Helper()
		p := newProvider(Config{GroupsClaim: claim, Roles: groups}, Policy{}, "")
		claims["sub"] = "1"
		person, err := p.person(claims)
		if want == Public {
			must.Fail(t, err, "is in none of the groups", "no role")
		}
		must.Equal(t, person.Role, want, "%v", claims)
	}
	all := Groups{Viewer: []string{"v", "a@example.com"}, Responder: []string{"r"}, Admin: []string{"a"}}
	f(map[string]any{"groups": []any{"v", "a", "r"}}, "groups", all, Admin)
	f(map[string]any{"groups": []any{"v", 7, nil}}, "groups", all, Viewer)
	f(map[string]any{"groups": "r"}, "groups", all, Responder)
	f(map[string]any{"groups": []any{"V", "v ", ""}}, "groups", all, Public)
	f(map[string]any{"groups": map[string]any{"v": true}}, "groups", all, Public)
	f(map[string]any{}, "groups", all, Public)
	f(map[string]any{"email": "a@example.com", "email_verified": true}, "email", all, Viewer)
	f(map[string]any{"email": "a@example.com", "email_verified": false}, "email", all, Public)
	f(map[string]any{"email": "a@example.com"}, "email", all, Public)
}

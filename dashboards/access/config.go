package access

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Config configures the log-in with OpenID Connect. Nothing is set if there is none.
type Config struct {
	Issuer           string   `yaml:"issuer"` // URL, below which is /.well-known/openid-configuration
	ClientID         string   `yaml:"client_id"`
	ClientSecret     string   `yaml:"client_secret" secret:"all"` // empty for a public client
	ClientSecretFile string   `yaml:"client_secret_file"`
	Scopes           []string `yaml:"scopes"`
	GroupsClaim      string   `yaml:"groups_claim"` // of the ID token, or else of the user info: a text, or a list of texts
	Roles            Groups   `yaml:"roles"`
}

// Groups are the groups at the provider whose members have a role.
type Groups struct {
	Viewer    []string `yaml:"viewer"`
	Responder []string `yaml:"responder"`
	Admin     []string `yaml:"admin"`
	Texts     []string `yaml:"texts"` // not a role: whose members, and admins, read texts of bodies; empty: everybody
}

// Default returns the defaults, with which there is no log-in.
func Default() Config {
	return Config{Scopes: []string{"openid", "profile", "email"}, GroupsClaim: "groups"}
}

// Enabled reports whether people log in at a provider.
func (c *Config) Enabled() bool { return c.Issuer != "" }

// Validate returns all errors, joined.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch u, err := url.Parse(c.Issuer); {
	case c.Issuer == "":
		if c.ClientID+c.ClientSecret+c.ClientSecretFile != "" || len(c.Roles.all())+len(c.Roles.Texts) > 0 {
			fail("issuer: is required: the URL of the provider")
		}
		return errors.Join(errs...)
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopbackHost(u.Hostname())):
		fail("issuer: %q is not an https URL, such as https://login.example.com/realms/acme", c.Issuer)
	}
	if c.ClientID == "" {
		fail("client_id: is required: the id that llmtap has at the provider")
	}
	if c.ClientSecret != "" && c.ClientSecretFile != "" {
		fail("client_secret, client_secret_file: both are set; keep one")
	}
	if !slices.Contains(c.Scopes, "openid") {
		fail("scopes: openid is missing")
	}
	if c.GroupsClaim == "" {
		fail("groups_claim: is empty; the claim with the groups is often groups")
	}
	switch all := c.Roles.all(); {
	case len(all) == 0:
		fail("roles: are empty, so nobody could log in: set the groups of viewer, responder or admin")
	case slices.Contains(slices.Concat(all, c.Roles.Texts), ""):
		fail("roles: a group has no name")
	}
	return errors.Join(errs...)
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (g *Groups) of(r Role) []string {
	return map[Role][]string{Viewer: g.Viewer, Responder: g.Responder, Admin: g.Admin}[r]
}

func (g *Groups) all() []string { return slices.Concat(g.Viewer, g.Responder, g.Admin) }

// role returns the highest role of a member of groups, and those of groups that have a role.
func (g *Groups) role(groups []string) (role Role, with []string) {
	for r := Viewer; r <= Admin; r++ {
		for _, group := range groups {
			if slices.Contains(g.of(r), group) {
				role = r
				if !slices.Contains(with, group) {
					with = append(with, group)
				}
			}
		}
	}
	return role, with
}

// String returns the groups by role, in words.
func (g *Groups) String() string {
	var parts []string
	for r := Viewer; r <= Admin; r++ {
		if list := g.of(r); len(list) > 0 {
			parts = append(parts, strings.Join(list, ", ")+" ("+r.String()+")")
		}
	}
	return strings.Join(parts, "; ")
}

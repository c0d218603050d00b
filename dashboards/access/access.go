package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Role is what a person may do. Each includes those before it.
type Role int

// The roles.
const (
	Public    Role = iota // of everybody, also without credentials
	Viewer                // reads pages and the API
	Responder             // acknowledges, silences, assigns, resolves, accepts, saves views
	Admin                 // makes and revokes tokens
)

var roleNames = []string{"public", "viewer", "responder", "admin"}

// Roles lists the names of the roles that can be given, lowest first.
var Roles = roleNames[Viewer:]

func (r Role) String() string { return roleNames[r] }

// ParseRole returns the role with a name.
func ParseRole(name string) (Role, error) {
	i := slices.Index(roleNames, name)
	if i < int(Viewer) {
		return Public, fmt.Errorf("role %.50q is not one of %s", name, strings.Join(Roles, ", "))
	}
	return Role(i), nil
}

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRole(string(text))
	return err
}

// A Person is who sends a request.
type Person struct {
	Name    string   `json:"name"`              // for others; empty if only a token of the configuration is known
	Subject string   `json:"subject,omitempty"` // id at the provider
	Role    Role     `json:"role"`
	Groups  []string `json:"groups,omitempty"` // at the provider, those that have a role or a team, or read texts
	Machine bool     `json:"-"`                // has a token of llmtap token create
	Teams   []string `json:"-"`                // of the token of a machine
}

type personKey struct{}

// With returns a context of requests of p.
func With(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// From returns who sends the request with ctx. It is the zero Person without a Mux before it.
func From(ctx context.Context) Person {
	p, _ := ctx.Value(personKey{}).(Person)
	return p
}

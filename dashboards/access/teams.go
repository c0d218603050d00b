package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// teamLabels are the labels that matchers of teams may have: those of every row about a call, and of every count.
var teamLabels = []string{"service", "environment"}

// A Team owns the calls whose labels match.
type Team struct {
	Name   string   `yaml:"name"`
	Groups []string `yaml:"groups"` // at the provider of the log-in, whose members are in the team
	Match  []string `yaml:"match"`  // matchers of teamLabels, as in Prometheus, which must all match
}

// Teams are all teams. If there are any, people other than admins see the calls of theirs only.
type Teams []Team

var promql = parser.NewParser(parser.Options{})

var teamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns all errors, joined.
func (t Teams) Validate() error {
	var errs []error
	for i, team := range t {
		if !teamName.MatchString(team.Name) {
			errs = append(errs, fmt.Errorf("teams[%d].name: %q: use 1 to 64 letters, digits, _ and -", i, team.Name))
		}
		if slices.ContainsFunc(t[:i], func(x Team) bool { return x.Name == team.Name }) {
			errs = append(errs, fmt.Errorf("teams[%d].name: there are two teams %s", i, team.Name))
		}
		if slices.Contains(team.Groups, "") {
			errs = append(errs, fmt.Errorf("teams[%d].groups: a group has no name", i))
		}
		if _, err := team.matchers(); err != nil {
			errs = append(errs, fmt.Errorf("teams[%d].match: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Known returns an error if one of names is no team.
func (t Teams) Known(names []string) error {
	var known []string
	for _, team := range t {
		known = append(known, team.Name)
	}
	for _, name := range names {
		switch {
		case len(t) == 0:
			return errors.New("there are no teams in the configuration of the collector")
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no team %.80q; the teams are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// matchers returns the matchers of t, without those that match everything.
func (t *Team) matchers() ([]*labels.Matcher, error) {
	if len(t.Match) == 0 {
		return nil, errors.New(`is empty; the matcher of all calls is service=~".*"`)
	}
	var out []*labels.Matcher
	for _, text := range t.Match {
		// With a name, as a selector must not match everything.
		parsed, err := promql.ParseMetricSelector("x{" + text + "}")
		if err != nil || len(parsed) != 2 {
			return nil, fmt.Errorf(`%q is not a matcher, such as service=~"search-.*"`, text)
		}
		for _, m := range parsed {
			switch {
			case m.Name == model.MetricNameLabel:
			case !slices.Contains(teamLabels, m.Name):
				return nil, fmt.Errorf("%q: teams have no label %s; use %s", text, m.Name, strings.Join(teamLabels, " or "))
			case m.Type == labels.MatchRegexp && m.Value == ".*":
			default:
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// A Policy says who sees what.
type Policy struct {
	Teams Teams
	Texts []string // groups at the provider whose members read texts of bodies; empty: everybody
}

// groups returns those of groups that Scope needs.
func (p *Policy) groups(groups []string) (out []string) {
	for _, g := range groups {
		if slices.Contains(p.Texts, g) || slices.ContainsFunc(p.Teams, func(t Team) bool { return slices.Contains(t.Groups, g) }) {
			out = append(out, g)
		}
	}
	return out
}

// Scope returns what who sees: admins everything, machines what their token says, and people what the teams of their groups own.
func (p *Policy) Scope(who Person) *Scope {
	if who.Role >= Admin {
		return nil
	}
	s := &Scope{Limited: len(p.Teams) > 0, NoTexts: len(p.Texts) > 0 && !overlap(who.Groups, p.Texts)}
	if who.Machine {
		s.Limited = len(who.Teams) > 0
	}
	if !s.Limited {
		return s
	}
	for _, t := range p.Teams {
		if who.Machine && !slices.Contains(who.Teams, t.Name) || !who.Machine && !overlap(who.Groups, t.Groups) {
			continue
		}
		own, err := t.matchers()
		if err != nil { // not validated
			continue
		}
		s.Teams, s.Any = append(s.Teams, t.Name), append(s.Any, own)
		s.Limited = s.Limited && len(own) > 0
	}
	return s
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// A Scope is what somebody sees. A nil Scope is everything.
type Scope struct {
	Limited bool                // to what Any matches
	Teams   []string            // names
	Any     [][]*labels.Matcher // of each team; the labels of a call match all of one of them
	NoTexts bool                // no texts of bodies
}

type scopeKey struct{}

// WithScope returns a context of requests of somebody who sees s.
func WithScope(ctx context.Context, s *Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeOf returns what may be read for the request with ctx: everything without a Mux before it.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// All reports whether s has the calls of all services.
func (s *Scope) All() bool { return s == nil || !s.Limited }

// Nothing reports whether s has no calls.
func (s *Scope) Nothing() bool { return !s.All() && len(s.Any) == 0 }

// Texts reports whether s has texts of bodies.
func (s *Scope) Texts() bool { return s == nil || !s.NoTexts }

// Sees reports whether s has what has these labels. What is about several services has no label service, and needs all.
func (s *Scope) Sees(of map[string]string) bool {
	return s.All() || of["service"] != "" && slices.ContainsFunc(s.Any, func(all []*labels.Matcher) bool {
		return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !m.Matches(of[m.Name]) })
	})
}

// Covers reports whether s has all that has these labels, whatever the others are.
func (s *Scope) Covers(of map[string]string) bool {
	return s.All() || of["service"] != "" && slices.ContainsFunc(s.Any, func(all []*labels.Matcher) bool {
		return !slices.ContainsFunc(all, func(m *labels.Matcher) bool {
			value, named := of[m.Name]
			return !named || !m.Matches(value)
		})
	})
}

// SeesRule reports whether an expression names no service and no environment but those that s has.
func (s *Scope) SeesRule(expr string) bool {
	if s.All() {
		return true
	}
	parsed, err := promql.ParseExpr(expr)
	sees := err == nil
	if sees {
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			named := map[string]string{}
			for _, m := range selector.LabelMatchers {
				switch {
				case !slices.Contains(teamLabels, m.Name):
				case m.Type == labels.MatchEqual:
					named[m.Name] = m.Value
				case m.Value != "":
					sees = false
				}
			}
			sees = sees && (len(named) == 0 || s.Covers(named))
			return nil
		})
	}
	return sees
}

// SQL returns the condition of the rows that s has, of a table with a column, or an expression, of each of teamLabels. A label that
// is not in columns restricts nothing. quote returns a text as a literal.
func (s *Scope) SQL(columns map[string]string, quote func(string) string) string {
	if s.All() {
		return "1"
	}
	var teams []string
	for _, all := range s.Any {
		terms := []string{columns["service"] + " != ''"}
		for _, m := range all {
			column := columns[m.Name]
			if column == "" {
				continue
			}
			terms = append(terms, map[labels.MatchType]string{
				labels.MatchEqual: column + " = " + quote(m.Value), labels.MatchNotEqual: column + " != " + quote(m.Value),
				labels.MatchRegexp: "match(" + column + ", " + quote("^(?s:"+m.Value+")$") + ")", labels.MatchNotRegexp: "NOT match(" + column + ", " + quote("^(?s:"+m.Value+")$") + ")",
			}[m.Type])
		}
		teams = append(teams, "("+strings.Join(terms, " AND ")+")")
	}
	return "(" + cmp.Or(strings.Join(teams, " OR "), "0") + ")"
}

// Constrains reports whether a matcher of s has a label.
func (s *Scope) Constrains(label string) bool {
	return !s.All() && slices.ContainsFunc(s.Any, func(all []*labels.Matcher) bool {
		return slices.ContainsFunc(all, func(m *labels.Matcher) bool { return m.Name == label })
	})
}

// String returns the teams, in words.
func (s *Scope) String() string {
	if s.All() {
		return "all services"
	}
	return "the services of " + cmp.Or(strings.Join(s.Teams, ", "), "no team")
}

// ErrTexts means that somebody may not read texts of bodies.
var ErrTexts = errors.New("texts need the role texts: ask an admin of llmtap to add one of your groups to it")

// Refuses returns why somebody who sees s may not run a stored query with these values, or nil. texts says that it reads texts of bodies,
// which the filter text does, too.
func (s *Scope) Refuses(texts bool, values map[string][]string) error {
	if (texts || strings.Join(values["text"], "") != "") && !s.Texts() {
		return ErrTexts
	}
	return nil
}

// OwnSQL returns why somebody who sees s may not run statements of their own, or nil.
func (s *Scope) OwnSQL() error {
	const instead = ": use a stored query (Explore, llmtap query NAME), a page, or PromQL"
	switch {
	case !s.All():
		return fmt.Errorf("own SQL is for those who see all services, and you see %s%s", s, instead)
	case !s.Texts():
		return fmt.Errorf("own SQL can read texts, and %w%s", ErrTexts, instead)
	}
	return nil
}

// Asking says what p lacks who sees nothing.
func (p Person) Asking() string {
	who := cmp.Or(p.Name, "this session")
	if p.Machine {
		return who + " is limited to teams that are not in the configuration (" + strings.Join(p.Teams, ", ") + "): ask an admin for another token"
	}
	return who + " is in no team, and people see the calls of their teams only: ask an admin of llmtap to add one of your groups to a team in its configuration, or to add you to a group of a team; after that, log in again"
}

// Whole returns a handler that passes requests of those who see all services to next. instead says what others can use.
func Whole(next http.Handler, instead string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := ScopeOf(r.Context()); !s.All() {
			http.Error(w, "this is about all services, and you see "+s.String()+"; "+instead, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

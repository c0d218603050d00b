package access

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var testPolicy = Policy{
	Teams: Teams{
		{Name: "search", Groups: []string{"search-eng"}, Match: []string{`service=~"search-.*"`, `environment!="dev"`}},
		{Name: "shop", Groups: []string{"shop-eng", "leads"}, Match: []string{`service="shop"`}},
		{Name: "all", Groups: []string{"sre"}, Match: []string{`service=~".*"`}},
	},
	Texts: []string{"support"},
}

// People see what their teams own, machines what their token says, and admins everything.
func TestScope(t *testing.T) {
	f := func(who Person, want string) {
		t.Helper()
		s := testPolicy.Scope(who)
		var sees []string
		for _, of := range []string{"search-api prod", "search-api dev", "search-api ", "shop dev", "other prod", " prod"} {
			service, environment, _ := strings.Cut(of, " ")
			if s.Sees(map[string]string{"service": service, "environment": environment}) {
				sees = append(sees, of)
			}
		}
		if s.Nothing() {
			sees = append(sees, "nothing")
		}
		if s.Texts() {
			sees = append(sees, "texts")
		}
		must.Equal(t, strings.Join(sees, ","), want, "%+v", who)
	}
	const all = "search-api prod,search-api dev,search-api ,shop dev,other prod, prod"
	f(Person{Role: Admin}, all+",texts")
	f(Person{Role: Viewer, Groups: []string{"search-eng"}}, "search-api prod,search-api ")
	f(Person{Role: Viewer, Groups: []string{"search-eng", "leads", "support"}}, "search-api prod,search-api ,shop dev,texts")
	f(Person{Role: Responder, Groups: []string{"shop-eng", "sre"}}, all)
	f(Person{Role: Responder, Groups: []string{"support"}}, "nothing,texts")
	f(Person{}, "nothing")
	f(Person{Role: Viewer, Machine: true}, all)
	f(Person{Role: Viewer, Machine: true, Teams: []string{"shop"}}, "shop dev")
	f(Person{Role: Viewer, Machine: true, Teams: []string{"gone"}}, "nothing")

	none := Policy{}
	must.Equal(t, none.Scope(Person{Role: Viewer}).All() && none.Scope(Person{Role: Viewer}).Texts(), true, "without teams")
	must.Equal(t, none.Scope(Person{Role: Viewer, Machine: true, Teams: []string{"shop"}}).Nothing(), true, "the token of a team that is no more")
}

// A silence must name what a team may cover.
func TestCovers(t *testing.T) {
	s := testPolicy.Scope(Person{Role: Responder, Groups: []string{"search-eng", "shop-eng"}})
	f := func(named map[string]string, want bool) {
		t.Helper()
		must.Equal(t, s.Covers(named), want, "%v", named)
	}
	f(map[string]string{"service": "search-api", "environment": "prod"}, true)
	f(map[string]string{"service": "search-api"}, false) // also dev
	f(map[string]string{"service": "search-api", "environment": "dev"}, false)
	f(map[string]string{"service": "shop"}, true)
	f(map[string]string{"environment": "prod"}, false)
	f(nil, false)
}

// A rule that names what somebody does not see is not theirs.
func TestSeesRule(t *testing.T) {
	s := testPolicy.Scope(Person{Role: Responder, Groups: []string{"shop-eng"}})
	f := func(expr string, want bool) {
		t.Helper()
		must.Equal(t, s.SeesRule(expr), want, "%s", expr)
	}
	f(`sum by (service) (increase(llmtap_failed_calls_total[5m])) > 1`, true)
	f(`llmtap_failed_calls_total{service="shop"} > 1`, true)
	f(`llmtap_failed_calls_total{service="other"} > 1`, false)
	f(`llmtap_failed_calls_total{service=~"shop|other"} > 1`, false)
	f(`llmtap_calls_total{service="shop"} / ignoring(service) llmtap_calls_total{service="other"}`, false)
	f(`not an expression`, false)
}

// Sessions and tokens keep what the policy needs.
func TestGroupsOfTeams(t *testing.T) {
	p := newProvider(Config{GroupsClaim: "groups", Roles: Groups{Viewer: []string{"staff"}}}, testPolicy, "")
	person, err := p.person(map[string]any{"sub": "1", "groups": []any{"staff", "unknown", "shop-eng", "support"}})
	must.Do(t, err)
	stored := must.Get(json.Marshal(person))(t)
	must.Do(t, json.Unmarshal(stored, &person))
	must.Equal(t, slices.Equal(person.Groups, []string{"staff", "shop-eng", "support"}), true, "groups %v", person.Groups)
	must.Fail(t, (&Token{Name: "a", Role: Admin, Teams: []string{"shop"}}).Validate(time.Time{}), "an admin sees all services")
	must.Fail(t, testPolicy.Teams.Known([]string{"shop", "shops"}), `there is no team "shops"; the teams are search, shop, all`)
	must.Fail(t, Teams{}.Known([]string{"shop"}), "there are no teams")
}

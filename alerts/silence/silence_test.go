package silence

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func matchers(t *testing.T, list ...string) Matchers {
	t.Helper()
	return must.Get(ParseMatchers(list))(t)
}

func TestParseMatcher(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		m, err := ParseMatcher(in)
		if err != nil || m.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, m, err, want)
		}
		must.Equal(t, must.Get(ParseMatcher(m.String()))(t).String(), want, "%s", m)
	}
	f(`service=checkout-agent`, `service="checkout-agent"`)
	f(` service = "checkout agent" `, `service="checkout agent"`)
	f(`severity=~"warn.*"`, `severity=~"warn.*"`)
	f(`severity!~warn|info`, `severity!~"warn|info"`)
	f(`stage!=planner`, `stage!="planner"`)
	f(`stage=`, `stage=""`)
	f(`stage==x`, `stage="=x"`)
	f(`service="a\"b\\c"`, `service="a\"b\\c"`)
	f(`service==~x`, `service="=~x"`)

	bad := func(in, want string) {
		t.Helper()
		must.Fail(t, must.Err(ParseMatcher(in)), want, in)
	}
	bad(`StageFailureRate`, "is not a matcher")
	bad(`=x`, "not a label name")
	bad(`a-b=x`, "not a label name")
	bad(`a!x`, "is not =, !=")
	bad(`a=~"("`, "not a regular expression")
	bad(`a="x`, "quotes")
	bad("a=\xff", "not UTF-8")
	bad(`a=`+strings.Repeat("x", maxValue+1), "longer than 1024 bytes")
}

// A matcher survives its text and its JSON.
func FuzzParseMatcher(f *testing.F) {
	for _, s := range []string{`service=shop`, `a=~"x|\\d+"`, `a!~"\u00e9\n"`, `a!="="`, `a==~`, `a="x`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMatcher(s)
		if err != nil {
			return
		}
		text, err := ParseMatcher(m.String())
		if err != nil || text.String() != m.String() || text.Value != m.Value {
			t.Errorf("%q: text %q, %v", s, text, err)
		}
		b, err := json.Marshal(m)
		var decoded Matcher
		if err == nil {
			err = json.Unmarshal(b, &decoded)
		}
		if err != nil || decoded.String() != m.String() {
			t.Errorf("%q: JSON %s, %v", s, b, err)
		}
		m.Matches(s)
	})
}

func TestMatch(t *testing.T) {
	labels := map[string]string{"service": "checkout-agent", "severity": "warning"}
	f := func(want bool, list ...string) {
		t.Helper()
		must.Equal(t, matchers(t, list...).Match("StageFailureRate", labels), want, "%s", list)
	}
	f(true, "service=checkout-agent")
	f(true, "service=checkout-agent", "severity=warning")
	f(false, "service=checkout-agent", "severity=critical")
	f(true, "alertname=StageFailureRate")
	f(false, "alertname=BadRequestBurst")
	f(true, "severity=~warn.*")
	f(false, "severity=~warn") // anchored
	f(false, "service=~checkout|agent")
	f(true, "severity!=critical")
	f(true, "severity!~crit.*")
	f(false, "severity!~.*")
	f(true, "stage=") // missing
	f(false, "stage!=")
	f(true, "stage=~|planner")
}

func TestValidate(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	valid := func() Silence {
		return Silence{
			ID: "a1", Matchers: matchers(t, "service=shop"), StartsAt: now, EndsAt: now.Add(time.Hour), CreatedBy: "anna", Comment: "deploy",
		}
	}
	if s := valid(); s.Validate() != nil {
		t.Error(s.Validate())
	}
	f := func(want string, change func(s *Silence)) {
		t.Helper()
		s := valid()
		change(&s)
		must.Fail(t, s.Validate(), want)
	}
	f("at least one matcher is required", func(s *Silence) { s.Matchers = nil })
	f("must not match the empty string", func(s *Silence) { s.Matchers = matchers(t, "service=~.*", "stage!=x", "severity=") })
	f("21 matchers", func(s *Silence) { s.Matchers = matchers(t, strings.Fields(strings.Repeat("a=b ", 21))...) })
	f("the start is missing", func(s *Silence) { s.StartsAt = time.Time{} })
	f("the end is missing", func(s *Silence) { s.EndsAt = time.Time{} })
	f("the end is not after the start", func(s *Silence) { s.EndsAt = s.StartsAt })
	f("the comment is missing", func(s *Silence) { s.Comment = " " })
	f("the author is missing", func(s *Silence) { s.CreatedBy = "" })
	f("the comment is longer", func(s *Silence) { s.Comment = strings.Repeat("x", maxComment+1) })
	f("the author is longer", func(s *Silence) { s.CreatedBy = strings.Repeat("x", maxAuthor+1) })
	f("not UTF-8", func(s *Silence) { s.Comment = "\xff" })
	f("not the id", func(s *Silence) { s.ID = "a/b" })
}

// The JSON is that of Alertmanager's API; isEqual is optional there.
func TestJSON(t *testing.T) {
	const text = `{"id":"a1","matchers":[{"name":"service","value":"shop","isRegex":false,"isEqual":true},` +
		`{"name":"stage","value":"p.*","isRegex":true,"isEqual":false}],"startsAt":"2026-11-23T09:00:00Z",` +
		`"endsAt":"2026-11-23T10:00:00Z","updatedAt":"2026-11-23T09:00:00Z","createdBy":"anna","comment":"deploy"}`
	s := must.JSON[Silence](t, []byte(text))
	must.Equal(t, string(must.Get(json.Marshal(s))(t)), text, "JSON")
	if s.Matches("X", map[string]string{"service": "shop", "stage": "planner"}) || !s.Matches("X", map[string]string{"service": "shop", "stage": "executor"}) {
		t.Error("the matchers do not work after decoding")
	}
	var ms Matchers
	if err := json.Unmarshal([]byte(`[{"name":"a","value":"b","isRegex":false}]`), &ms); err != nil || ms.String() != `a="b"` {
		t.Errorf("%s, %v", ms, err)
	}
	must.Fail(t, json.Unmarshal([]byte(`[{"name":"a","value":"(","isRegex":true}]`), &ms), "", "no error for an invalid expression")
}

func TestSet(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	shop := map[string]string{"service": "shop"}
	at := func(id string, start, end time.Duration, ms ...string) Silence {
		return Silence{ID: id, Matchers: matchers(t, ms...), StartsAt: now.Add(start), EndsAt: now.Add(end)}
	}
	s := NewSet()
	s.Replace([]Silence{
		at("expired", -2*time.Hour, 0, "service=shop"), at("short", -time.Hour, time.Minute, "service=shop"),
		at("long", -time.Minute, time.Hour, "alertname=X"), at("other", 0, 2*time.Hour, "service=bank"), at("pending", time.Second, 3*time.Hour, "service=shop"),
	})
	find := func(d time.Duration, want string) {
		t.Helper()
		got := ""
		if x := s.Find(now.Add(d), "X", shop); x != nil {
			got = x.ID
		}
		must.Equal(t, got, want, "%v", d)
	}
	find(0, "long")
	find(time.Second, "pending")
	s.Delete("pending")
	find(time.Second, "long")
	find(time.Hour, "")
	if next := s.Next(now); !next.Equal(now.Add(time.Minute)) {
		t.Errorf("next change at %v", next)
	}
	if all := s.All(); len(all) != 4 || all[0].ID != "expired" || all[3].ID != "other" {
		t.Errorf("%v", all)
	}
	for i := range MaxSilences + 5 {
		s.Put(at(strconv.Itoa(i), 0, 1, "a=b"))
	}
	must.Equal(t, len(s.All()), MaxSilences, "silences")
	if _, ok := s.Get("expired"); ok {
		t.Error("a new silence is ignored instead of an expired one")
	}
	if _, ok := s.Get("long"); !ok {
		t.Error("the silence that ends last is ignored")
	}
}

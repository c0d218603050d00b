package queries

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The tests of sinks/clickhouse run the queries.
func TestFiles(t *testing.T) {
	placeholder := regexp.MustCompile(`\{(\w+):[^}]+\}`)
	if len(Names()) == 0 {
		t.Fatal("no queries")
	}
	for _, name := range Names() {
		q := must.Get(Get(name))(t)
		if q.Question == "" || !strings.ContainsAny(q.Question, "?") {
			t.Errorf("%s: the first line is not a question: %q", name, q.Question)
		}
		var declared, used []string
		for _, p := range q.Parameters {
			if !slices.Contains([]string{"status", "failed", "seconds", "tokens"}, p.Name) { // not bound: they are numbers
				declared = append(declared, p.Name)
			}
			if p.Doc == "" {
				t.Errorf("%s: parameter %s has no description", name, p.Name)
			}
		}
		sql, _, err := q.Bind(allValues(q), now)
		must.Do(t, err, name)
		for _, m := range placeholder.FindAllStringSubmatch(sql+q.SQL, -1) { // Bind leaves out the branches that are not chosen
			used = append(used, strings.TrimSuffix(m[1], "_0"))
		}
		declared = append(declared, q.Bound...)
		if !slices.Contains(Groups(), q.Group) {
			t.Errorf("%s: group %q is not in Groups", name, q.Group)
		}
		slices.Sort(declared)
		slices.Sort(used)
		must.Agree(t, cmp.Diff(declared, slices.Compact(used)), name, "parameters (-declared +used)")
		if !strings.HasSuffix(q.SQL, "\nLIMIT {limit:UInt32}\n") {
			t.Errorf("%s: does not end with LIMIT", name)
		}
		// A query may look up sort keys in a table and then read their rows with FINAL.
		rest := regexp.MustCompile(`\bIN\s+\(\s+SELECT toStartOfHour\(started_at\), service, exchange_id\s+FROM exchanges\b`).ReplaceAllString(q.SQL, "")
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:FROM|.*JOIN) (?:exchanges|findings|tool_calls|runs|alerts)(?: AS \w+)?( FINAL|_final)?\b`).FindAllStringSubmatch(rest, -1) {
			if m[1] == "" {
				t.Errorf("%s: reads a table that may contain a row twice: %s", name, m[0])
			}
		}
	}
}

// allValues returns a value for each filter and each required parameter of q.
func allValues(q Query) Values {
	values := Values{}
	for _, p := range q.Parameters {
		switch {
		case p.Name == "status":
			values[p.Name] = []string{"4xx"}
		case p.Name == "failed":
			values[p.Name] = []string{"yes"}
		case p.Name == "seconds" || p.Name == "tokens":
			values[p.Name] = []string{"1", "<9"}
		case p.Filter || p.Required:
			values[p.Name] = []string{"x"}
		}
	}
	return values
}

func TestParse(t *testing.T) {
	got, err := parse("x", "-- Why?\n-- param since = 1 hour: how far back\n-- a remark: with = and colon\n-- param id: which one\n-- param stage = : one only\nSELECT 1\n-- param no = 1: too late\n")
	must.Do(t, err)
	want := []Parameter{{Name: "since", Default: "1 hour", Doc: "how far back"}, {Name: "id", Required: true, Doc: "which one"}, {Name: "stage", Doc: "one only"}}
	if d := cmp.Diff(want, got.Parameters); d != "" || got.Question != "Why?" {
		t.Errorf("question %q, params (-want +got):\n%s", got.Question, d)
	}
	for _, bad := range []string{"SELECT 1", "", "-- Why?\n-- param since = 1 hour\n"} {
		must.Fail(t, must.Err(parse("x", bad)), "", "parse", bad)
	}
}

func TestGetUnknown(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		must.Equal(t, fmt.Sprint(must.Err(Get(name))), want, "Get(%q)", name)
	}
	f("cause", `no query "cause"; did you mean causes?`)
	f("failure_by_stages", `no query "failure_by_stages"; did you mean failures_by_stage?`)
	f("stage", `no query "stage"; did you mean failures_by_stage?`)
	f("zzz", `no query "zzz"; known: `+strings.Join(Names(), ", "))
	f("", `no query ""; known: `+strings.Join(Names(), ", "))
}

var now = time.Date(2026, 11, 21, 15, 30, 0, 123456789, time.UTC)

func TestBind(t *testing.T) {
	q := Query{Name: "x", Parameters: []Parameter{
		{Name: "since", Default: "1 hour", Time: true},
		{Name: "until", Time: true},
		{Name: "window", Default: "5 minutes"},
		{Name: "conversation_id", Required: true, Doc: "as in the alert"},
	}}
	f := func(given, want map[string]string, wantErr string) {
		t.Helper()
		values := Values{}
		for n, v := range given {
			values[n] = []string{v}
		}
		_, got, err := q.Bind(values, now)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if d := cmp.Diff(want, got); d != "" || text != wantErr {
			t.Errorf("Bind(%v): %s, want %s\n%s", given, text, wantErr, d)
		}
	}
	f(map[string]string{"conversation_id": "c"},
		map[string]string{"since": "2026-11-21 14:30:00.123456789", "until": "2200-01-01 00:00:00", "window": "5 minutes", "conversation_id": "c"}, "")
	f(map[string]string{"conversation_id": "", "since": "2 days", "until": "2026-11-20"},
		map[string]string{"since": "2026-11-19 15:30:00.123456789", "until": "2026-11-20 00:00:00.000000000", "window": "5 minutes", "conversation_id": ""}, "")
	f(nil, nil, "query x requires conversation_id: as in the alert")
	f(map[string]string{"conversation_id": "c", "sinc": "1"}, nil, `query x has no parameter "sinc"; did you mean since?`)
	f(map[string]string{"conversation_id": "c", "since": "soon"}, nil, `since: "soon" is not a time; examples are 15 minutes, 2h, 7d, 2026-11-20 and 2026-11-20T09:30:00Z`)
	f(map[string]string{"conversation_id": "c", "until": "0001-01-01"}, nil, `until: "0001-01-01" is out of range`)
	q.Parameters = nil
	f(map[string]string{"a": "1"}, nil, `query x has no parameter "a"; it has none`)
}

func TestFilter(t *testing.T) {
	q, err := parse("x", "-- Why?\n-- since 1 hour\nSELECT 1 FROM exchanges_final AS e\nWHERE {filter exchanges AS e EXCEPT status}\n    AND {filter findings ONLY attr, version}\nLIMIT 5\n")
	must.Do(t, err)
	f := func(given Values, wantWhere string, wantParams map[string]string) {
		t.Helper()
		sql, params, err := q.Bind(given, now)
		_, where, _ := strings.Cut(sql, "WHERE e.started_at >= {since:DateTime64(9, 'UTC')} AND e.started_at < {until:DateTime64(9, 'UTC')}")
		where = strings.TrimSuffix(strings.ReplaceAll(where, "\n", ""), "LIMIT {limit:UInt32}")
		delete(params, "since")
		delete(params, "until")
		if d := cmp.Diff(wantParams, params); err != nil || where != wantWhere || d != "" {
			t.Errorf("%v: %v\n%s\n%s\n%s", given, err, where, wantWhere, d)
		}
	}
	f(nil, "    AND true", map[string]string{"limit": "5"})
	f(Values{"service": {"a", "b"}, "limit": {"7"}}, " AND (e.service = {service_0:String} OR e.service = {service_1:String})    AND true",
		map[string]string{"service_0": "a", "service_1": "b", "limit": "7"})
	f(Values{"version": {"1.0"}, "attr": {"tenant=a=b", "vip"}},
		" AND (e.service_version = {version_0:String}) AND e.attributes[{attr_0:String}] = {attr_1:String} AND mapContains(e.attributes, {attr_2:String})"+
			"    AND (exchange_version = {version_0:String}) AND attributes[{attr_0:String}] = {attr_1:String} AND mapContains(attributes, {attr_2:String})",
		map[string]string{"version_0": "1.0", "attr_0": "tenant", "attr_1": "a=b", "attr_2": "vip", "limit": "5"})
	for given, want := range map[string]string{
		"status 400": `query x has no parameter "status"`, "attr =x": `attr: "=x" has no key; an example is tenant=acme`, "limit 0": `limit: "0" is not a number from 1 to 100000`,
	} {
		name, value, _ := strings.Cut(given, " ")
		if _, _, err := q.Bind(Values{name: {value}}, now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", given, err, want)
		}
	}
	by := Query{Parameters: []Parameter{{Name: "by", Default: "stage", Choices: []string{"stage", "model", "attr.KEY"}}}}
	for given, want := range map[string]string{"model": "", "attr.tenant": "", "attr.": `by: there is no "attr."`, "modl": `by: there is no "modl"; did you mean model?`} {
		if _, _, err := by.Bind(Values{"by": {given}}, now); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
	findings, _ := Filter("{filter findings AS f ONLY time}", nil, map[string]string{})
	if !strings.HasPrefix(findings, "f.first_seen >= {since:DateTime64(9, 'UTC')} AND ") || !strings.Contains(findings, " OR (f.conversation_id, f.finding_id) IN\n") {
		t.Errorf("findings of a time range: %s", findings)
	}
	f2 := func(status, want string) {
		t.Helper()
		if got, err := hasStatus("status", status, nil); got != want || (err != nil) != (want == "") {
			t.Errorf("status %q: %s, %v", status, got, err)
		}
	}
	f2("400", "status = 400")
	f2("4XX", "intDiv(status, 100) = 4")
	f2("0", "status = 0")
	f2("bad", "")
	f2("-1", "")
	for table := range tables {
		if len(Filters(table)) == 0 {
			t.Errorf("no filters for %s", table)
		}
	}
	for _, bad := range []string{"{filter nothing}", "{filter exchanges EXCEPT nothing}", "{filter exchanges e}"} {
		must.Fail(t, must.Err(parse("x", "-- Why?\nSELECT "+bad)), "", "parse", bad)
	}
}

func TestParseTime(t *testing.T) {
	f := func(text string, want time.Time) {
		t.Helper()
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%q): %v, %v; want %v", text, got, err, want)
		}
	}
	f("now", now)
	f("0s", now)
	f("15 minutes", now.Add(-15*time.Minute))
	f("15 minutes ago", now.Add(-15*time.Minute))
	f("1 minute", now.Add(-time.Minute))
	f("30s", now.Add(-30*time.Second))
	f("2h", now.Add(-2*time.Hour))
	f("1h30m", now.Add(-90*time.Minute))
	f("1 hour 30 min", now.Add(-90*time.Minute))
	f("1.5 Hours", now.Add(-90*time.Minute))
	f("7d", now.AddDate(0, 0, -7))
	f("2 weeks", now.AddDate(0, 0, -14))
	f("2026-11-20", time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
	f("2026-11-20 09:30", time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC))
	f("2026-11-20T09:30:05", time.Date(2026, 11, 20, 9, 30, 5, 0, time.UTC))
	f("2026-11-20T09:30:05.25+08:00", time.Date(2026, 11, 20, 1, 30, 5, 250e6, time.UTC))
	f("2026-11-20 09:30:05 UTC", time.Date(2026, 11, 20, 9, 30, 5, 0, time.UTC))

	// Times without a zone are in the zone of now. A printed time can be pasted.
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	local := now.In(berlin)
	g := func(text, want string) {
		t.Helper()
		must.Equal(t, must.Get(ParseTime(text, local))(t).Format(time.RFC3339), want, "ParseTime(%q) in Berlin", text)
	}
	g("2026-11-20", "2026-11-19T23:00:00Z")
	g("2026-07-20 09:30", "2026-07-20T07:30:00Z")
	g("2026-11-20 05:07:02 CET", "2026-11-20T04:07:02Z")
	g("2026-07-20 05:07:02 CEST", "2026-07-20T03:07:02Z")
	g("2026-11-20 05:07:02 UTC", "2026-11-20T05:07:02Z")
	g("2026-11-20T09:30:05Z", "2026-11-20T09:30:05Z")
	g("2h", now.Add(-2*time.Hour).Format(time.RFC3339))
	if got, err := ParseTime("2026-11-20 05:07:02 PST", local); err == nil {
		t.Errorf("ParseTime of an unknown abbreviation: %v", got)
	}
	for _, bad := range []string{"", " ", "5", "h", "-2h", "2 fortnights", "2026-13-01", "1e9d", "999999999d", "1h-", "1.2.3h", "NaNh", "١h", strings.Repeat("9999d", 1000)} {
		if got, err := ParseTime(bad, now); err == nil {
			t.Errorf("ParseTime(%q): %v, no error", bad, got)
		}
	}
}

// The parameter hits of differs selects calls as the filters do, and other names are attributes.
func TestChosen(t *testing.T) {
	f := func(hits, want, wantErr string) {
		t.Helper()
		params := map[string]string{}
		sql, err := Filter("{chosen exchanges}", Values{"hits": {hits}}, params)
		for name, value := range params {
			sql = strings.ReplaceAll(sql, "{"+name+":String}", value)
		}
		if (wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: error %v, want %q", hits, err, wantErr)
		} else if err == nil {
			must.Equal(t, sql, want, "%s", hits)
		}
	}
	f("", "true", "")
	f("version=2.4.0,status=4xx", "true AND service_version = 2.4.0 AND intDiv(status, 100) = 4", "")
	f("tenant=a=b,region", "true AND attributes[tenant] = a=b AND mapContains(attributes, region)", "")
	f("attr=x", "true AND attributes[attr] = x", "")
	f("status=x", "", "not an HTTP status")
	f("=x", "", "has no key")
}

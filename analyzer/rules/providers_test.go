package rules

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

//go:generate go test -run ^TestProviders$ -args -update

var update = flag.Bool("update", false, "write PROVIDERS.md")

// A stand is a row of providers.txt: what some targets do with a defect.
type stand struct {
	rule    *check.Rule // nil for a topic that no rule is about
	detail  string      // of the rule, or the topic
	verdict string      // rejects, accepts or unknown
	targets []wire.Target
	models  []string // nil for all
	since   string   // first report, "-" if unknown
	checked string   // when it was looked up
	sources []string
	note    string
}

var (
	dates  = regexp.MustCompile(`^(-|\d{4}(-\d\d(-\d\d)?)?)$`)
	thread = regexp.MustCompile(`^([\w.-]+/[\w.-]+)(#(\d+))?$`)
)

// stands reads providers.txt.
func stands(t testing.TB) (all []stand) {
	t.Helper()
	var head stand
	for line := range strings.Lines(string(must.Get(os.ReadFile("providers.txt"))(t))) {
		line = strings.TrimSuffix(line, "\n")
		row, indented := strings.CutPrefix(line, "\t")
		switch topic, isTopic := strings.CutPrefix(line, "topic "); {
		case strings.HasPrefix(line, "#"):
		case isTopic:
			head = stand{detail: topic}
		case !indented:
			id, detail, _ := strings.Cut(line, " ")
			if head = (stand{rule: ByID(id), detail: detail}); head.rule == nil {
				t.Fatalf("unknown rule %q", id)
			}
		default:
			all = append(all, head.row(t, row))
		}
	}
	return all
}

// row returns the row of the head s.
func (s stand) row(t testing.TB, line string) stand {
	t.Helper()
	fields := strings.Split(line, " | ")
	if len(fields) == 6 {
		fields = append(fields, "")
	}
	if len(fields) != 7 || !dates.MatchString(fields[3]) || !dates.MatchString(fields[4]) || len(fields[4]) != len("2026-01-02") {
		t.Fatalf("%q is no row", line)
	}
	s.verdict, s.since, s.checked, s.sources, s.note = fields[0], fields[3], fields[4], strings.Fields(fields[5]), fields[6]
	if fields[2] != "-" {
		s.models = strings.Fields(fields[2])
	}
	for name := range strings.FieldsSeq(fields[1]) {
		i := slices.IndexFunc(everyone(), func(target wire.Target) bool { return targetName(target) == name })
		if i < 0 {
			t.Fatalf("%q: unknown target %q", line, name)
		}
		s.targets = append(s.targets, everyone()[i])
	}
	if len(s.targets) == 0 || len(s.sources) == 0 || !slices.Contains([]string{"rejects", "accepts", "unknown"}, s.verdict) {
		t.Fatalf("%q lacks a verdict, a target or a source", line)
	}
	return s
}

// TestStands compares providers.txt with the severities of the rules. Each rejection that a rule predicts has a row.
func TestStands(t *testing.T) {
	type pair struct {
		rule   *check.Rule
		target string
	}
	proven := map[pair]bool{}
	for _, s := range stands(t) {
		if s.rule != nil && s.detail != "" {
			code := string(must.Get(os.ReadFile(s.rule.ID + ".go"))(t))
			cases := string(must.Get(os.ReadFile("testdata/" + s.rule.ID + ".txtar"))(t))
			if !strings.Contains(cases, "["+s.rule.ID+" "+s.detail+"]") && !strings.Contains(code, `"`+s.detail+`"`) {
				t.Errorf("%s: unknown detail %q", s.rule.ID, s.detail)
			}
		}
		for _, target := range s.targets {
			if s.rule == nil {
				continue
			}
			if s.verdict == "rejects" {
				proven[pair{s.rule, targetName(target)}] = true
			}
			if predicted := s.predicted(target); s.detail == "" && predicted != (s.verdict == "rejects") && (s.verdict == "rejects" || s.models == nil) {
				t.Errorf("%s of %s: %s, and the rule predicts a rejection: %v", s.rule.ID, targetName(target), s.verdict, predicted)
			}
		}
		for _, source := range s.sources {
			if source != "recorded" && source != "unlinked" && (source != "none" || s.verdict != "unknown") && !strings.HasPrefix(source, "https://") && !thread.MatchString(source) {
				t.Errorf("%q is no source", source)
			}
		}
	}
	for _, r := range All {
		for _, target := range everyone() {
			if r.Severity(target) == check.Reject && !proven[pair{r, targetName(target)}] {
				t.Errorf("%s: providers.txt does not say why %s rejects it", r.ID, targetName(target))
			}
		}
	}
}

// predicted reports whether the rule predicts a rejection by the target, without a model or for one of the models.
func (s *stand) predicted(target wire.Target) bool {
	if s.rule.Severity(target) == check.Reject {
		return true
	}
	for _, model := range s.models {
		target.Model = model
		if s.rule.Severity(target) == check.Reject {
			return true
		}
	}
	return false
}

// TestProviders compares PROVIDERS.md with providers.txt. With -update it writes the page.
func TestProviders(t *testing.T) {
	page := providersPage(stands(t))
	if *update {
		must.Do(t, os.WriteFile("PROVIDERS.md", []byte(page), 0o600))
	}
	must.Equal(t, string(must.Get(os.ReadFile("PROVIDERS.md"))(t)), page, "PROVIDERS.md; run go generate ./analyzer/rules")
}

// providersPage is the page of all rows, with a table for each variant.
func providersPage(all []stand) string {
	byVariant := map[wire.Variant][]string{}
	for _, s := range all {
		for _, target := range s.targets {
			byVariant[target.Variant] = append(byVariant[target.Variant], s.line(target))
		}
	}
	var b strings.Builder
	b.WriteString(`# What providers refuse and accept

Written by go generate from providers.txt, which tests compare with the rules and with
recorded traffic. Each row says what a provider does with one fault of a request:

- **rejects**: it answers with an error. llmtap predicts this.
- **accepts**: it was seen to accept the fault, or documents that it does.
- **unknown**: nothing was found, or sources contradict each other. llmtap reports the
  fault at most as lenient.

"Since" is the date of the first report, not of the change, which is seldom announced.
"Recorded" means traffic that the tests read; "unlinked" a report that was not kept. Rows that name models were only seen with these; a
row marked "not judged" is about something that llmtap does not look for.
`)
	for _, v := range slices.Sorted(maps.Keys(byVariant)) {
		fmt.Fprintf(&b, "\n## %s\n\n| | fault | API | models | since | looked up | sources |\n|---|---|---|---|---|---|---|\n", v)
		lines := byVariant[v]
		slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

// rank orders the rows of a table: rejections, then what is accepted, then what is unknown.
func rank(line string) int {
	for i, verdict := range []string{"rejects", "accepts", "unknown"} {
		if strings.HasPrefix(line, "| "+verdict) {
			return i
		}
	}
	return -1
}

// line is the row of a table of the page.
func (s *stand) line(target wire.Target) string {
	fault := s.detail
	if s.rule != nil {
		fault = s.rule.Title() + " (`" + strings.TrimSpace(s.rule.ID+" "+s.detail) + "`)"
	}
	if s.note != "" {
		fault += ": " + s.note
	}
	api := string(target.Dialect)
	if target.Native {
		api = "/api/chat"
	}
	models := "all"
	if s.models != nil {
		models = strings.Join(s.models, ", ")
	}
	var sources []string
	for _, source := range s.sources {
		sources = append(sources, link(source))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", s.verdict, strings.ReplaceAll(fault, "|", `\|`), api, models, s.since, s.checked, strings.Join(sources, ", "))
}

// link is a source in Markdown.
func link(source string) string {
	if m := thread.FindStringSubmatch(source); m != nil && m[3] != "" {
		return "[" + source + "](https://github.com/" + m[1] + "/issues/" + m[3] + ")"
	} else if m != nil {
		return "[" + source + "](https://github.com/" + m[1] + ")"
	}
	if page, ok := strings.CutPrefix(source, "https://"); ok {
		host, _, _ := strings.Cut(page, "/")
		return "[" + host + "](" + source + ")"
	}
	return source
}

// A Stand is what providers.txt says of a rule and a target, for the tests that package rules cannot contain.
type Stand struct {
	Verdict         string
	Recorded, Whole bool // recorded traffic is a source; the row is about all details and models
}

// Stands returns what providers.txt says, by rule and target.
func Stands(t testing.TB) map[[2]string][]Stand {
	t.Helper()
	all := map[[2]string][]Stand{}
	for _, s := range stands(t) {
		if s.rule == nil {
			continue
		}
		for _, target := range s.targets {
			key := [2]string{s.rule.ID, targetName(target)}
			all[key] = append(all[key], Stand{s.verdict, slices.Contains(s.sources, "recorded"), s.detail == "" && s.models == nil})
		}
	}
	return all
}

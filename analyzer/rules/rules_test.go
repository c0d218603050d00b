package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var openAI = wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI}

// targetOf is whom the name of a case asks: after an @ stands DIALECT or DIALECT.VARIANT, with .native for
// Ollama's own API; OpenAI's chat completions when the name has none.
func targetOf(t *testing.T, name string) wire.Target {
	t.Helper()
	_, of, ok := strings.Cut(name, "@")
	if !ok {
		return openAI
	}
	words := strings.Split(of, ".")
	target := wire.Target{Dialect: wire.Dialect(words[0])}
	known := target.Dialect.Variants()
	if len(known) == 0 {
		t.Fatalf("%s: no dialect %q", name, words[0])
	}
	target.Variant = known[0]
	if len(words) > 1 {
		target.Variant = wire.Variant(words[1])
	}
	if !slices.Contains(known, target.Variant) {
		t.Fatalf("%s: no variant %q of %s", name, target.Variant, target.Dialect)
	}
	target.Native = len(words) > 2 && words[2] == "native"
	return target
}

// check is what all rules find in body.
func violations(t *testing.T, target wire.Target, body []byte) []check.Violation {
	t.Helper()
	r := scan(t, target, body)
	target.Model = string(r.Model)
	return check.NewChecker(All).Check(r, target, nil)
}

// say is a violation in the form of a .want file.
func say(v check.Violation) string {
	severity := ""
	if v.Predicted != check.Reject {
		severity = "(" + string(v.Predicted) + ") "
	}
	return fmt.Sprintf("%d: [%s] %s%s\n", v.Message, strings.TrimSpace(v.Rule.ID+" "+v.Detail), severity, v.Summary)
}

// TestTestdata runs every archive: bad gives exactly its .want, good gives nothing from its rule, and nothing from any
// rule that the target would reject.
func TestTestdata(t *testing.T) {
	for _, rule := range All {
		t.Run(rule.ID, func(t *testing.T) {
			a := must.Get(txtar.ParseFile(filepath.Join("testdata", rule.ID+".txtar")))(t)
			want, answers := map[string]string{}, map[string][]byte{}
			for _, f := range a.Files {
				if name, ok := strings.CutSuffix(f.Name, ".want"); ok {
					want[name] = string(f.Data)
				} else if name, ok := strings.CutSuffix(f.Name, ".answer"); ok {
					answers[name] = f.Data
				}
			}
			cases := map[string]int{}
			for _, f := range a.Files {
				name, ok := strings.CutSuffix(f.Name, ".json")
				if !ok {
					continue
				}
				all, found := "", 0
				for _, v := range violationsAfter(t, targetOf(t, name), f.Data, answers[name]) {
					all += say(v)
					if v.Rule == rule {
						found++
					}
					if strings.HasPrefix(name, "good/") && (v.Rule == rule || v.Predicted == check.Reject) {
						t.Errorf("%s: found in a good history: %s", f.Name, say(v))
					}
				}
				dir, _ := filepath.Split(name)
				cases[dir]++
				if dir == "bad/" {
					must.Agree(t, cmp.Diff(want[name], all), f.Name, "findings differ")
					if found == 0 {
						t.Errorf("%s: shows no %s", f.Name, rule.ID)
					}
					delete(want, name)
				}
			}
			if cases["bad/"] == 0 || cases["good/"] == 0 || len(cases) != 2 {
				t.Errorf("testdata has %v histories, want one in bad/ and one in good/ at least, and no others", cases)
			}
			for name := range want {
				t.Errorf("%s.want belongs to no bad history", name)
			}
		})
	}
}

// TestRegistry compares All with the files on disk and checks that every rule is complete.
func TestRegistry(t *testing.T) {
	var sorted []string
	orders := map[int]string{}
	for _, r := range All {
		sorted = append(sorted, r.ID)
		if r.Title() == "" || strings.Count(r.Doc, "\n") < 2 || r.Fix == "" || r.Cause == "" || r.Severity == nil || r.Run == nil {
			t.Errorf("%s lacks a title, a text, a fix, a cause, a severity or a check", r.ID)
		}
		if other := orders[r.Order]; other != "" || r.Order <= 0 {
			t.Errorf("%s has the order %d; it must be above 0 and unique, and %q has it", r.ID, r.Order, other)
		}
		orders[r.Order] = r.ID
		if strings.ContainsAny(r.Title()+r.Fix, "|\n") {
			t.Errorf("%s: title or fix breaks the Markdown table", r.ID)
		}
		must.Equal(t, ByID(r.ID), r, "ByID(%q)", r.ID)
	}
	if !slices.IsSorted(sorted) {
		t.Errorf("All is not sorted by id: %q", sorted)
	}
	for _, id := range sorted {
		must.Do(t, must.Err(os.Stat(id+".go")))
	}
	archives := must.Get(filepath.Glob("testdata/*.txtar"))(t)
	for i, a := range archives {
		archives[i] = strings.TrimSuffix(filepath.Base(a), ".txtar")
	}
	must.Agree(t, cmp.Diff(sorted, archives), "testdata and All differ (-rules +archives)")
	must.Equal(t, strings.Count(Table(), "\n"), len(All)+2, "lines of Table")
}

package rules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

var openAI = facts.Target{Dialect: facts.OpenAIChat, Variant: facts.OpenAI}

// report is what all rules say about a messages array, in the form of a .want file.
func report(t *testing.T, messages []byte) string {
	t.Helper()
	var b strings.Builder
	for _, v := range analyzer.NewChecker(All).Check(scan(t, messages), openAI) {
		fmt.Fprintf(&b, "%d: [%s] %s\n", v.Message, strings.TrimSpace(v.Rule.ID+" "+v.Detail), v.Summary)
	}
	return b.String()
}

// TestTestdata runs every archive: bad gives exactly its .want, good gives nothing from any rule.
func TestTestdata(t *testing.T) {
	for _, rule := range All {
		t.Run(rule.ID, func(t *testing.T) {
			a, err := txtar.ParseFile(filepath.Join("testdata", rule.ID+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, f := range a.Files {
				if name, ok := strings.CutSuffix(f.Name, ".want"); ok {
					want[name] = string(f.Data)
				}
			}
			bad, good := 0, 0
			for _, f := range a.Files {
				name, ok := strings.CutSuffix(f.Name, ".json")
				if !ok {
					continue
				}
				got := report(t, f.Data)
				switch dir, _ := filepath.Split(name); dir {
				case "good/":
					good++
					if got != "" {
						t.Errorf("%s: rules report on a good history:\n%s", f.Name, got)
					}
				case "bad/":
					bad++
					if diff := cmp.Diff(want[name], got); diff != "" {
						t.Errorf("%s: findings differ (-want +got):\n%s", f.Name, diff)
					}
					if !strings.Contains(got, "["+rule.ID) {
						t.Errorf("%s: shows no %s", f.Name, rule.ID)
					}
					delete(want, name)
				default:
					t.Errorf("%s is neither in bad/ nor in good/", f.Name)
				}
			}
			if bad == 0 || good == 0 {
				t.Errorf("testdata has %d bad and %d good histories, want one of each at least", bad, good)
			}
			for name := range want {
				t.Errorf("%s.want belongs to no %s.json", name, name)
			}
		})
	}
}

// TestRegistry holds All against the files on disk and InOrder against All.
func TestRegistry(t *testing.T) {
	var ids, inOrder []string
	for _, r := range All {
		ids = append(ids, r.ID)
		if r.Title() == "" || strings.Count(r.Doc, "\n") < 2 || r.Fix == "" {
			t.Errorf("%s lacks a title, a text or a fix", r.ID)
		}
		if strings.ContainsAny(r.Title()+r.Fix, "|\n") {
			t.Errorf("%s: title or fix breaks the Markdown table", r.ID)
		}
		if ByID(r.ID) != r {
			t.Errorf("ByID(%q) is another rule", r.ID)
		}
	}
	for _, r := range InOrder {
		inOrder = append(inOrder, r.ID)
	}
	if !slices.IsSorted(ids) {
		t.Errorf("All is not sorted by id: %v", ids)
	}
	slices.Sort(inOrder)
	if diff := cmp.Diff(ids, inOrder); diff != "" {
		t.Errorf("InOrder holds other rules than All:\n%s", diff)
	}
	for _, id := range ids {
		if _, err := os.Stat(id + ".go"); err != nil {
			t.Error(err)
		}
	}
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range archives {
		archives[i] = strings.TrimSuffix(filepath.Base(a), ".txtar")
	}
	if diff := cmp.Diff(ids, archives); diff != "" {
		t.Errorf("testdata holds other archives than All has rules:\n%s", diff)
	}
	if n := strings.Count(Table(), "\n"); n != len(All)+2 {
		t.Errorf("Table has %d lines, want %d", n, len(All)+2)
	}
}

// TestSeverity: a rule rejects for variants that the specification names without a mark, and for no others.
func TestSeverity(t *testing.T) {
	var spec []struct{ ID, Severity string }
	readJSON(t, "../../../shared/spec/rules.json", &spec)
	// Named in the specification, but only for some versions or with another one contradicting it.
	lenient := map[string]string{
		"unknown_tool_call_id mistral": "validators before version 13 accept it when the counts match",
		"arguments_invalid_json vllm":  "its main branch replaces the arguments by {}",
	}
	text := map[string]string{}
	for _, s := range spec {
		text[s.ID] = s.Severity
	}
	for _, r := range All {
		s := strings.ReplaceAll(text[r.ID], "reject: as orphan_tool_reply", text["orphan_tool_reply"])
		_, s, ok := strings.Cut(s, "reject: ")
		if !ok {
			t.Errorf("%s: the specification names no variant that rejects it", r.ID)
		}
		s, _, _ = strings.Cut(s, ";")
		named := map[string]bool{}
		for w := range strings.FieldsSeq(s) {
			w, mark, _ := strings.Cut(w, "(")
			switch mark, _, _ = strings.Cut(mark, ")"); mark {
			case "I", "U", "C", "R":
			default:
				named[w] = true
			}
		}
		for _, v := range variants {
			got := r.Severity(facts.Target{Dialect: facts.OpenAIChat, Variant: v})
			want := analyzer.Lenient
			if named[string(v)] && lenient[r.ID+" "+string(v)] == "" {
				want = analyzer.Reject
			}
			if got != want {
				t.Errorf("%s for %s: %s, want %s", r.ID, v, got, want)
			}
		}
		if got := r.Severity(facts.Target{Dialect: facts.Other, Variant: facts.OpenAI}); got != analyzer.Lenient {
			t.Errorf("%s rejects in a dialect that is not judged", r.ID)
		}
	}
}

// TestSpecExamples runs the examples of the specification that these rules can judge.
func TestSpecExamples(t *testing.T) {
	var examples []struct {
		Rule, Dialect    string
		Expect           []string
		Violating, Fixed struct{ Messages json.RawMessage }
	}
	readJSON(t, "../../../shared/spec/examples.json", &examples)
	variantOf := map[string]facts.Variant{"openai_chat": facts.OpenAI, "style": facts.OpenAI, "deepseek_thinking": facts.DeepSeek}
	for _, v := range variants {
		if v != facts.OpenAI && v != facts.Azure {
			variantOf[string(v)] = v
		}
	}
	ours, n := 0, 0
	for _, e := range examples {
		v, ok := variantOf[e.Dialect]
		if !ok {
			continue
		}
		target := facts.Target{Dialect: facts.OpenAIChat, Variant: v}
		check := func(messages []byte) (ids []string) {
			for _, v := range analyzer.NewChecker(All).Check(scan(t, messages), target) {
				ids = append(ids, v.Rule.ID)
			}
			slices.Sort(ids)
			return slices.Compact(ids)
		}
		var want []string
		for _, id := range e.Expect {
			if ByID(id) != nil {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, check(e.Violating.Messages)); diff != "" {
			t.Errorf("%s for %s (-want +got):\n%s", e.Rule, e.Dialect, diff)
		}
		if got := check(e.Fixed.Messages); got != nil {
			t.Errorf("%s for %s: the fixed body shows %v", e.Rule, e.Dialect, got)
		}
		n++
		if ByID(e.Rule) != nil {
			ours++
		}
	}
	if ours != len(All) {
		t.Errorf("%d examples for %d rules", ours, len(All))
	}
	t.Logf("%d chat examples, %d of them for these rules", n, ours)
}

// readJSON decodes a file of the shared material, or skips the test where it is absent.
func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("SKIPPED, the specification is not here: %v", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("decode %s: %v", path, err)
	}
}

package repair

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/rulestest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// broken returns what the provider refuses in a request.
func broken(t testing.TB, target wire.Target, body []byte, o Options) (all []check.Violation) {
	t.Helper()
	f := fixing{target: target, checker: check.NewChecker(rules.InOrder), body: body, options: o}
	all = must.Get(f.check())(t)
	return all
}

// repaired repairs body and checks what holds for every repair: the result is accepted or says what is left, the patch leads from
// body to the result, a second repair changes nothing, and a healthy history does not change.
func repaired(t testing.TB, target wire.Target, body []byte, o Options) *Result {
	t.Helper()
	healthy := len(broken(t, target, body, o)) == 0
	before := bytes.Clone(body)
	res, err := Repair(target, body, o)
	must.Do(t, err, string(body))
	if !bytes.Equal(before, body) {
		t.Fatal("the input was changed")
	}
	if healthy && !o.Lenient && (len(res.Steps) > 0 || !bytes.Equal(res.Body, body)) {
		t.Fatalf("a healthy history was changed: %+v\n%s", res.Steps, body)
	}
	if !json.Valid(res.Body) {
		t.Fatalf("not JSON: %s", res.Body)
	}
	if left := broken(t, target, res.Body, o); len(left) != len(res.Left) {
		t.Fatalf("left %v, reported %v", left, res.Left)
	}
	patched := body
	for _, o := range res.Patch() {
		patched, err = apply(patched, o)
		must.Do(t, err, "apply the patch")
	}
	if !bytes.Equal(patched, res.Body) {
		t.Fatalf("the patch does not lead to the result:\n%s\n%s", patched, res.Body)
	}
	again, err := Repair(target, res.Body, o)
	if err != nil || len(again.Steps) > 0 || !bytes.Equal(again.Body, res.Body) {
		t.Fatalf("a second repair: %v, %+v", err, again)
	}
	return res
}

// TestSpecExamples repairs the violating and the fixed bodies of the specification.
func TestSpecExamples(t *testing.T) {
	for _, e := range rulestest.Examples(t) {
		t.Run(e.Rule, func(t *testing.T) {
			repaired(t, e.Target, e.Fixed, Options{})
			res := repaired(t, e.Target, e.Violating, Options{})
			for _, v := range res.Left {
				t.Errorf("left: %s", v.Summary)
			}
			for _, s := range res.Steps {
				t.Logf("%s: %s: %s; lost %q", s.Rule, s.Reason, s.Repair, s.Lost)
			}
			if len(res.Steps) > 0 {
				t.Logf("%s", compact(res.Body))
			}
		})
	}
}

// tally counts the repairs of one kind of mutation.
type tally struct {
	tried, refused, accepted, lost int
	known, whole                   int // with the answers: parts lost, histories as they were before the mutation
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatal("not JSON")
	}
	return reflect.DeepEqual(x, y)
}

// TestMutations repairs generated and recorded histories that are broken in all the ways in which agents break them.
func TestMutations(t *testing.T) {
	slowtest.Skip(t)
	r := rand.New(rand.NewPCG(2, 0))
	counts := map[string]*tally{}
	play := func(t *testing.T, d wire.Dialect, id string, messages []byte) {
		list, ok := rulestest.Atoms(d, messages)
		target := wire.Target{Dialect: d, Variant: d.Variants()[0]}
		if !ok {
			return
		}
		sites := rulestest.Sites(list)
		whole, _ := rulestest.Render(d, list)
		if len(sites) == 0 || len(broken(t, target, whole, Options{})) > 0 {
			return
		}
		repaired(t, target, whole, Options{})
		var answers [][]byte
		for c := range children(whole, 0) {
			if role := string(value(whole[c.value:c.end], "/role")); role == `"assistant"` || d == wire.OpenAIResponses {
				answers = append(answers, whole[c.value:c.end:c.end])
			}
		}
		r.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		for _, at := range sites[:1] {
			for _, m := range rulestest.Mutations {
				atoms, _, _, ok := m.Do(d, list, at)
				if !ok {
					continue
				}
				name := fmt.Sprintf("%-16s %s", d, m.Name)
				n := counts[name]
				if n == nil {
					n = &tally{}
					counts[name] = n
				}
				n.tried++
				body, _ := rulestest.Render(d, atoms)
				if len(broken(t, target, body, Options{})) == 0 {
					continue
				}
				n.refused++
				res := repaired(t, target, body, Options{})
				if len(res.Left) == 0 {
					n.accepted++
				} else {
					t.Errorf("%s: %s: left %s", id, name, res.Left[0].Summary)
				}
				n.lost += len(res.Lost())
				with := repaired(t, target, body, Options{Answers: answers})
				n.known += len(with.Lost())
				if sameJSON(t, with.Body, whole) {
					n.whole++
				} else if n.tried-n.whole == 1 {
					t.Logf("%s: %s\n%s\n%s\n%+v\n%s", id, name, whole, body, with.Steps, with.Body)
				}
			}
		}
	}
	t.Run("generated", func(t *testing.T) {
		for _, d := range []wire.Dialect{wire.OpenAIChat, wire.OpenAIResponses, wire.Anthropic, wire.Bedrock} {
			for i := range 25 {
				play(t, d, fmt.Sprintf("generated %s %d", d, i), rulestest.Generate(d, r))
			}
		}
	})
	t.Run("recorded", func(t *testing.T) {
		rulestest.Recorded(t, func(d wire.Dialect, id string, messages json.RawMessage) { play(t, d, id, messages) })
	})
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := counts[name]
		t.Logf("%-48s %5d tried %5d refused %5d accepted after, %5d lost; with answers %5d lost, %5d as before", name, n.tried, n.refused, n.accepted, n.lost, n.known, n.whole)
	}
}

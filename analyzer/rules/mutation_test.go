package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rulestest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// TestMutations breaks recorded conversations that use tools, and generated ones with parallel calls, in all the ways
// that agents do. At least 99.5 % of the faults must be found, by their rule and at their message, and no history may be
// found at fault before.
func TestMutations(t *testing.T) {
	slowtest.Skip(t)
	r := rand.New(rand.NewPCG(4, 2))
	s := suite{t: t, checker: check.NewChecker(InOrder), r: r, tried: map[string]int{}, missed: map[string]int{}}
	t.Run("generated", func(t *testing.T) {
		s.t = t
		for _, d := range []wire.Dialect{wire.OpenAIChat, wire.OpenAIResponses, wire.Anthropic, wire.Bedrock} {
			for i := range 500 {
				s.play(d, fmt.Sprintf("generated %s %d", d, i), rulestest.Generate(d, r))
			}
		}
		s.report()
	})
	t.Run("recorded", func(t *testing.T) {
		s.t = t
		rulestest.Recorded(t, s.play)
		s.report()
	})
}

type suite struct {
	t             *testing.T
	checker       *check.Checker
	r             *rand.Rand
	facts         facts.Request
	tried, missed map[string]int
	histories     int
}

// maxSites bounds the sites at which one history is broken.
const maxSites = 4

func (s *suite) play(d wire.Dialect, id string, messages json.RawMessage) {
	list, ok := rulestest.Atoms(d, messages)
	if !ok {
		return
	}
	all := rulestest.Sites(list)
	if len(all) == 0 {
		return
	}
	whole, _ := rulestest.Render(d, list)
	if found := s.findings(d, whole); slices.ContainsFunc(found, func(v check.Violation) bool { return v.Predicted == check.Reject }) {
		return // broken as it was recorded; TestAcceptedTraffic judges that
	}
	s.histories++
	s.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, at := range all[:min(len(all), maxSites)] {
		for _, m := range rulestest.Mutations {
			broken, where, want, ok := m.Do(d, list, at)
			if !ok {
				continue
			}
			body, index := rulestest.Render(d, broken)
			found := s.findings(d, body)
			name := string(d) + ": " + m.Name
			s.tried[name]++
			if slices.ContainsFunc(found, func(v check.Violation) bool {
				return v.Message == index[where] && slices.Contains(want, v.Rule.ID)
			}) {
				continue
			}
			if s.missed[name]++; s.missed[name] <= 2 {
				var got []string
				for _, v := range found {
					got = append(got, fmt.Sprintf("%s@%d", v.Rule.ID, v.Message))
				}
				s.t.Logf("%s: %s at %v: want one of %v at message %d, found %v", id, m.Name, at, want, index[where], got)
			}
		}
	}
}

func (s *suite) findings(d wire.Dialect, messages json.RawMessage) []check.Violation {
	must.Do(s.t, facts.ScanMessages(d, messages, &s.facts), "scan", d)
	return s.checker.Check(&s.facts, wire.Target{Dialect: d, Variant: d.Variants()[0]}, nil)
}

func (s *suite) report() {
	s.t.Helper()
	tried, missed := 0, 0
	for name, n := range s.tried {
		tried, missed = tried+n, missed+s.missed[name]
		if s.missed[name] > 0 {
			s.t.Logf("%-50s %d of %d missed", name, s.missed[name], n)
		}
	}
	s.t.Logf("%d histories, %d faults, %d not found: %.2f %%", s.histories, tried, missed, 100*float64(tried-missed)/float64(max(tried, 1)))
	if tried == 0 || missed*200 > tried {
		s.t.Errorf("%d of %d faults not found", missed, tried)
	}
	clear(s.tried)
	clear(s.missed)
	s.histories = 0
}

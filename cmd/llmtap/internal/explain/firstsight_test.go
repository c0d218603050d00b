package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// TestFirstSight explains public bug reports whose names were written down before anything of llmtap had seen them. At first
// sight, before the wordings and kinds that each set showed were added:
//
//	set    at        reports  right  wrong as a guess, or unexplained  wrong with certainty
//	first  be43e484  34       20     12                                2
//	2      acfc18a0  34       24     7                                 3
//	3      b60a6d08  36       27     8                                 1
//	4      801cab67  29       22     6                                 1
//	5      a4882268  41       30     10                                1
//	6      86915df8  36       30     5                                 1
//	7      d7e52faa  31       25     6                                 0
//	8      f2610dff  122      102    19                                1
//	9      22211046  35       28     6                                 1
//	10     9ee7123e  74       65     8                                 1
//	11     ec64e977  21       15     6                                 0
//	12     185a7ffd  36       30     6                                 0
//	13     91b2669f  23       19     3                                 1
//
// The goal of 85 % right at first sight is reached in set 10 alone, and in no two sets in a row; the goal of at most 3 % wrong with
// certainty holds for sets 5 to 12, and for sets 12 and 13 together, of which 49 of 59 were right. The figures of the test are those
// after learning. Sets 2 to 9 were taken as a search of issues returned them, without reports whose wording a table or a test had; of
// set 10, 11 have such a wording, and without them 54 of 63 were right. Sets 8 to 11 are of repositories that no set before has. Set
// 11 is small, and most of it are refusals of providers, in wordings that no table had. Of sets 2 to 11, 249 reports may say nothing:
// there "unexplained" is right, alone or beside another name. In sets 8 and 9, these are 108, of which 88 were right; of the others,
// 42 of 49. In sets 10 and 11, they are 44, of which 37 were right; of the others, 43 of 51.
//
// Sets 12 and 13 are the results of 39 and 18 queries of a search of issues and pull requests that are of 2025 or 2026, quote a refusal
// of a request, and show its cause. Left out are threads of earlier sets, and texts of which half of the sequences of six words are in
// an earlier set, in unseen.jsonl or in the shared data: of 76 texts, 36 are left, and of 41, 23. Set 13 was taken after what set 12
// showed was learned. A request of set 12 had lost a backslash, so that it did not show its fault.
//
//	go test ./cmd/llmtap/internal/explain -run TestFirstSight -v
func TestFirstSight(t *testing.T) {
	for _, set := range must.Get(filepath.Glob("testdata/firstsight*.jsonl"))(t) {
		t.Run(filepath.Base(set), func(t *testing.T) { firstSight(t, set) })
	}
}

// TestLearned explains public reports of clients, gateways and providers that were read to broaden the wordings: those of learned
// before set 5, those of learned2 and learned3 before set 8, those of learned4 before set 10. The names of all but the first were
// written down before the first run, too, but the reports were chosen by kind, and those of learned3 and 56 of learned4 are recalled
// from libraries, without a thread to cite, so they say little about new texts. At the first run, 165 of 189, 143 of 186 and 195 of
// 222 were right, 0, 7 and 2 wrong with certainty. One name of learned3 was corrected afterwards, and two of learned4 got a second.
// The sentences of learned5 were made up before set 12, for the faults of messages in unusual words: 84 of 110 were right, none was
// wrong with certainty.
func TestLearned(t *testing.T) {
	for _, set := range must.Get(filepath.Glob("testdata/learned*.jsonl"))(t) {
		t.Run(filepath.Base(set), func(t *testing.T) { firstSight(t, set) })
	}
}

func firstSight(t *testing.T, set string) {
	text := must.Get(os.ReadFile(set))(t)
	all, right, wrong := 0, 0, 0
	for line := range bytes.Lines(text) {
		var r struct {
			ID            string
			Status        int
			ErrorText     string `json:"error_text"`
			Request       json.RawMessage
			URL           string
			ExpectedCause string `json:"expected_cause"`
		}
		must.Do(t, json.Unmarshal(line, &r))
		in := r.ErrorText
		if string(r.Request) != "null" {
			record := map[string]any{"request": r.Request, "response": r.ErrorText}
			if r.Status != 0 {
				record["status"] = r.Status
			}
			if r.URL != "" {
				record["url"] = r.URL
			}
			in = string(must.Get(json.Marshal(record))(t))
		}
		got := explain(t, strings.NewReader(in))
		must.Equal(t, len(got), 1, "%s", r.ID)
		want, _, _ := strings.Cut(r.ExpectedCause, " (")
		ok := slices.Contains(strings.Split(want, "|"), got[0].Cause)
		all++
		mark := "right"
		switch {
		case ok:
			right++
		case got[0].Known == cause.Guessed || got[0].Known == cause.None:
			mark = "wrong, as a guess"
		default:
			mark = "WRONG"
			wrong++
		}
		t.Logf("%-36s %-18s %-9s %-28s %s", r.ID, mark, got[0].Known, got[0].Cause, r.ExpectedCause)
	}
	t.Logf("%d of %d right, %d wrong with certainty", right, all, wrong)
	if right*100 < all*85 || wrong*100 > all*3 {
		t.Error("fewer are right, or more are wrong with certainty, than promised")
	}
}

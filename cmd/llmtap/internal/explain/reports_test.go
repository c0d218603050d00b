package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mend"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// newNames are the names of faults that had none when the reports were written.
var newNames = map[string]string{
	"container_missing": "container_required", "gemini_mixed_tools": "option_required", "cache_points": "cache_control_limit", "lone_surrogate": "body_invalid",
	"block_after_tool_use": "missing_tool_reply", // what the text says; the request contradicts it
}

// unseen are the reports whose fault no rule finds in the request yet.
var unseen = []string{"devstral_alternation"}

// TestReports explains public bug reports. What a provider refused is never silent: lint and repair name it or the rule.
func TestReports(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../../../shared/data/reports.jsonl"))
	if err != nil {
		t.Skipf("SKIPPED, the shared material is not here: %v", err)
	}
	for line := range bytes.Lines(text) {
		var r struct {
			ID            string          `json:"id"`
			Status        *int            `json:"status"`
			ErrorText     string          `json:"error_text"`
			Request       json.RawMessage `json:"request"`
			ExpectedCause string          `json:"expected_cause"`
			ExpectedRule  string          `json:"expected_rule"`
		}
		must.Do(t, json.Unmarshal(line, &r))
		causes := strings.Split(r.ExpectedCause, "|")
		if name := newNames[r.ID]; name != "" {
			causes = []string{name}
		}
		record := must.Get(json.Marshal(map[string]any{"request": r.Request, "status": r.Status, "response": r.ErrorText}))(t)
		in := string(record)
		if string(r.Request) == "null" {
			in = r.ErrorText
		}
		got := explain(t, strings.NewReader(in))
		if len(got) != 1 || !slices.Contains(causes, got[0].Cause) {
			t.Errorf("%s: %+v, want %v", r.ID, got, causes)
			continue
		}
		if r.ID == "block_after_tool_use" && (got[0].Known != cause.Conflict || !strings.HasPrefix(got[0].Fix, "Put all calls")) {
			t.Errorf("%s: %+v", r.ID, got[0])
		}
		t.Logf("%-26s %-9s %s", r.ID, got[0].Known, got[0].Cause)
		if string(r.Request) == "null" {
			continue
		}
		var out, report bytes.Buffer
		l := lint.New(lint.Text{W: &out, Style: &terminal.Style{}})
		must.Do(t, l.Files(t.Context(), []string{"-"}, bytes.NewReader(record)))
		m := mend.Mender{Format: mend.JSON, Out: &out, Report: &report, Style: &terminal.Style{}}
		must.Do(t, m.File("-", bytes.NewReader(record)))
		finds := !strings.HasPrefix(r.ExpectedRule, "no rule") && r.ExpectedRule != "" && !slices.Contains(unseen, r.ID)
		if found := strings.Contains(out.String(), r.ExpectedRule+" ("); finds && (!found || m.Counts.Repaired != 1) || l.Counts.Rejected+l.Counts.Refused != 1 || m.Counts.Repaired+m.Counts.Left != 1 {
			t.Errorf("%s: want %s\n%s%s", r.ID, r.ExpectedRule, &out, &report)
		}
		must.Contain(t, out.String(), fmt.Sprint(*r.Status), r.ID, "lint does not name the status")
	}
}

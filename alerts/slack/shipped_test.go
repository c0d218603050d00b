package slack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// shippedGroups returns alerts of the shipped rules that real events have triggered in package rules.
func shippedGroups(t *testing.T) (out []alerts.Group) {
	t.Helper()
	files, err := filepath.Glob("../rules/testdata/fired/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d alerts, %v", len(files), err)
	}
	for _, file := range files {
		raw := must.Get(os.ReadFile(file))(t)
		a := must.JSON[alerts.Alert](t, raw)
		out = append(out, wording.Permitted(alerts.Group{Key: a.Name, Alerts: []alerts.Alert{a}}, false))
	}
	return out
}

// The messages of the shipped rules. The golden file is what people read.
func TestShippedAlerts(t *testing.T) {
	var b strings.Builder
	for _, g := range shippedGroups(t) {
		a := g.Alerts[0]
		m := render(g, alerts.Access{Host: "collector-1"})
		checkLimits(t, m)
		blocks := must.Get(json.Marshal(m.all()))(t)
		fmt.Fprintf(&b, "==================== %s ====================\n%s\n", a.Name, plainBlocks(t, blocks))
		header, _, _ := strings.Cut(plainBlocks(t, blocks), "\n")
		if n := strings.Count(header, "shop/planner"); n > 1 {
			t.Errorf("%s: the header names the stage %d times: %s", a.Name, n, header)
		}
		if strings.Contains(b.String(), "0 of 0") {
			t.Errorf("%s: the message has no counts", a.Name)
		}
		if a.Labels["stage"] == "" { // no alert about calls
			continue
		}
		titles := []string{"*Why:*", "*Change:*", "*Fix:*", "*Last ", "*Whose change*", "*Proof*", "*Investigate*"}
		if a.Evidence.Failed == 0 { // something is unusual
			titles = []string{"*Why:*", "*Next:*", "*What to do*", "*Investigate*"}
		}
		for _, title := range titles {
			must.Contain(t, string(blocks), title, a.Name)
		}
	}
	alertstest.Golden(t, "shipped.txt", b.String())
}

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
)

// The messages of the shipped rules, for alerts that real events have triggered in package rules. The golden file is what
// people read.
func TestShippedAlerts(t *testing.T) {
	files, err := filepath.Glob("../rules/testdata/fired/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d alerts, %v", len(files), err)
	}
	var b strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var a alerts.Alert
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m := render(withoutContent(alerts.Group{Key: a.Name, Alerts: []alerts.Alert{a}}), alerts.Access{Host: "collector-1"})
		checkLimits(t, m)
		blocks, err := json.Marshal(m.blocks)
		if err != nil {
			t.Fatal(err)
		}
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
		for _, title := range []string{"*Last ", "*Why*", "*Whose change*", "*Proof*", "*What to do*", "*Investigate*"} {
			if !strings.Contains(string(blocks), title) {
				t.Errorf("%s: the message has no %s", a.Name, title)
			}
		}
	}
	alertstest.Golden(t, "shipped.txt", b.String())
}

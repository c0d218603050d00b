package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Each command in a notification is a command of llmtap that reaches the collector, with names that need quotes. The alerts are
// those that real events have triggered in package rules.
func TestCommandsInNotifications(t *testing.T) {
	files, err := filepath.Glob("../../alerts/rules/testdata/fired/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d alerts, %v", len(files), err)
	}
	list := []alerts.Alert{{
		Name: "Custom", Labels: map[string]string{"service": "it's $HOME", "stage": "a & b", "environment": "prod"}, StartsAt: time.Now(),
		Evidence: alerts.Evidence{Failed: 1, Rules: []string{"empty_content"}},
	}}
	for _, file := range files {
		raw := filetest.Read(t, file)
		var a alerts.Alert
		must.Do(t, json.Unmarshal(raw, &a))
		list = append(list, a)
	}
	const nowhere = "http://127.0.0.1:1"
	tried := 0
	for _, a := range list {
		for _, line := range wording.Commands(alerts.Access{URL: nowhere}, &a) {
			// The shell reads the line as a user's shell does.
			out, err := exec.CommandContext(t.Context(), "sh", "-c", `llmtap() { printf '%s\n' "$@"; }; `+line).Output()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			_, stderr, code := runCommand(t, "", strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")...)
			if tried++; code != 1 || !strings.Contains(stderr, nowhere) || !strings.Contains(stderr, "refused") {
				t.Errorf("%s: %s\nexit code %d: %s", a.Name, line, code, stderr)
			}
		}
	}
	if tried < 25 {
		t.Errorf("only %d commands", tried)
	}
}

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// tailUntil runs llmtap tail on dir until its output contains text, and returns the output.
func tailUntil(t *testing.T, dir, text string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr lockedBuffer
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append([]string{"tail", "--data-dir", dir, "--since", "10m"}, args...), nil, &stdout, &stderr, func(string) string { return "" })
	}()
	for ctx.Err() == nil && !strings.Contains(stdout.String(), text) {
		select {
		case err := <-done:
			t.Fatalf("tail %q ended: %v\n%s", args, err, &stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if ctx.Err() != nil {
		t.Errorf("tail %q: no %q in\n%.4000s\n%s", args, text, &stdout, &stderr)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("tail %q: %v", args, err)
	}
	return stdout.String()
}

// Stored calls are written with their findings below them, each once.
func TestTail(t *testing.T) {
	needClickHouse(t)
	dir := t.TempDir()
	cfg := collectortest.Config(t, func(cfg *config.Config) {
		cfg.DataDir = dir
		collectortest.WithProvider(t, cfg)
	})
	runCollector(t, cfg)
	collectortest.CallProxy(t, cfg.Proxy.Listen)
	const broken = "          reject orphan_tool_reply: message 2 (tool) answers call_1"
	tailUntil(t, dir, " 200 ")
	tailUntil(t, dir, broken)
	if out := tailUntil(t, dir, broken, "--failed"); strings.Contains(out, " 200 ") {
		t.Errorf("--failed writes accepted calls:\n%s", out)
	}
	if out := tailUntil(t, dir, broken, "--status", "4xx"); strings.Contains(out, " 200 ") {
		t.Errorf("--status 4xx writes accepted calls:\n%s", out)
	}
	out := tailUntil(t, dir, `"rule_id":"orphan_tool_reply"`, "--rule", "orphan_tool_reply", "--format", "jsonl")
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		var row struct {
			ExchangeID string `json:"exchange_id"`
			FindingID  string `json:"finding_id"`
			RuleID     string `json:"rule_id"`
		}
		must.Do(t, json.Unmarshal([]byte(line), &row), line)
		if row.FindingID != "" && row.RuleID != "orphan_tool_reply" {
			t.Errorf("finding of another rule: %s", line)
		}
		if id := row.FindingID + "/" + row.ExchangeID; seen[id] > 0 {
			t.Errorf("written twice: %s", line)
		} else {
			seen[id]++
		}
	}

	for _, args := range [][]string{{"--format", "xml"}, {"orphan_tool_reply"}, {"--since", "-1m"}, {"--status", "teapot"}} {
		if _, stderr, code := runCommand(t, "", append([]string{"tail", "--data-dir", dir}, args...)...); code != command.ExitBadInput {
			t.Errorf("tail %q: exit code %d, %s", args, code, stderr)
		}
	}
}

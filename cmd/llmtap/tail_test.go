package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// tailUntil runs llmtap tail on dir until its output has the text, and returns the output.
func tailUntil(t *testing.T, dir, text string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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

// What is stored shows, with what is wrong below it, and nothing twice.
func TestTail(t *testing.T) {
	needClickHouse(t)
	dir := t.TempDir()
	runWithGateway(t, dir)
	const broken = "          reject orphan_tool_reply: message 2 (tool) answers call_1"
	tailUntil(t, dir, " 200 ")
	tailUntil(t, dir, broken)
	if out := tailUntil(t, dir, broken, "--failed"); strings.Contains(out, " 200 ") {
		t.Errorf("accepted calls show:\n%s", out)
	}
	out := tailUntil(t, dir, `"rule_id":"orphan_tool_reply"`, "--rule", "orphan_tool_reply", "--format", "jsonl")
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		var row struct {
			ExchangeID string `json:"exchange_id"`
			FindingID  string `json:"finding_id"`
			RuleID     string `json:"rule_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if row.FindingID != "" && row.RuleID != "orphan_tool_reply" {
			t.Errorf("another rule: %s", line)
		}
		if id := row.FindingID + "/" + row.ExchangeID; seen[id] > 0 {
			t.Errorf("twice: %s", line)
		} else {
			seen[id]++
		}
	}

	for _, args := range [][]string{{"--format", "xml"}, {"orphan_tool_reply"}, {"--since", "-1m"}} {
		var stderr bytes.Buffer
		err := run(t.Context(), append([]string{"tail", "--data-dir", dir}, args...), nil, &bytes.Buffer{}, &stderr, os.Getenv)
		if command.Report(err, &stderr) != command.ExitBadInput {
			t.Errorf("tail %q: %v", args, err)
		}
	}
}

// While ClickHouse is away tail waits, and then shows what it missed.
func TestTailWithoutClickHouse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Time // where the first answer after the failure begins
		var out, stderr bytes.Buffer
		tl := tail{out: &out, seen: map[string]time.Time{}}
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		tl.query = func(_ context.Context, _ string, params map[string]string) (*clickhouse.Result, error) {
			at, err := time.Parse("2006-01-02 15:04:05.000000000", params["from"])
			if err != nil {
				t.Error(err)
			}
			switch now := time.Since(start); {
			case now > 10*time.Minute:
				cancel()
			case now > 2*time.Minute && now < 8*time.Minute:
				return nil, errors.New("connection refused")
			}
			if time.Since(start) >= 8*time.Minute && back.IsZero() {
				back = at
			}
			return &clickhouse.Result{}, nil
		}
		if err := tl.run(ctx, start, &stderr); err != nil {
			t.Fatal(err)
		}
		if missed := start.Add(2 * time.Minute); back.IsZero() || back.After(missed) {
			t.Errorf("asked from %v once ClickHouse was back; it went at %v", back, missed)
		}
		if got, want := stderr.String(), "ClickHouse does not answer, retrying: connection refused\nClickHouse answers again\n"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}

package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// TestClaudeCode runs the recipe for Claude Code word for word, with its package from npm, against the demo's provider.
func TestClaudeCode(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	modules := nodetest.Modules(t, filepath.Join("testdata", "coding-agents"))
	fake := httptest.NewServer(provider.New(provider.Default()))
	defer fake.Close()
	proxy := "127.0.0.1:" + strconv.Itoa(freePort(t))
	up := startUp(t, "--proxy-listen", proxy, "--proxy-upstream", "anthropic="+fake.URL+provider.AnthropicPath)
	up.ready(t)
	_, recipe, _ := strings.Cut(source(t, "deploy/coding-agents.md"), "## Claude Code\n\n```sh\n")
	recipe, _, _ = strings.Cut(recipe, "```")
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(recipe, "127.0.0.1:8089", proxy))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "PATH="+filepath.Join(modules, "node_modules", ".bin")+":"+os.Getenv("PATH"),
		"ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sink := up.open(t)
	waitFor(t, up, "the calls of Claude Code", func() bool {
		res, err := sink.Query(t.Context(), "SELECT count() FROM exchanges_final WHERE service = 'claude-code' AND user != '' AND dialect = 'anthropic' AND status = 200", nil)
		return err == nil && res.Rows[0][0].(uint64) > 0
	})
}

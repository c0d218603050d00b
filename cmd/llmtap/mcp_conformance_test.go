package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// TestMCPConformance runs the conformance suite of the Model Context Protocol. Left out are scenarios of what llmtap does not have
// (prompts, resources, sampling, elicitation, sessions) and those that call tools of the suite's own server.
func TestMCPConformance(t *testing.T) {
	slowtest.Skip(t)
	modules := nodetest.Modules(t, filepath.Join("testdata", "mcp-conformance"))
	up := startUp(t)
	up.ready(t)
	running := must.Get(collector.FindRunning(up.dir))(t)
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "logging-set-level", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), filepath.Join(modules, "node_modules", ".bin", "conformance"), "server", "--url", running.URL()+"/mcp?act=true", "--scenario", scenario).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

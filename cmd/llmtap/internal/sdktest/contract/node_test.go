package contract

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest"
)

// nodeDirs are the directories of the TypeScript hook and of the clients under test.
type nodeDirs struct{ hook, clients string }

func nodePackages(t testing.TB) nodeDirs {
	return nodeDirs{hook: nodetest.Hook(t), clients: nodetest.Modules(t, "node")}
}

// command returns a command that runs a program in node/.
func (d nodeDirs) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join("node", program)}, args...)...)
	cmd.Env = environ("LLMTAP_PACKAGE="+d.hook, "NODE_PATH="+filepath.Join(d.clients, "node_modules"), "NODE_NO_WARNINGS=1",
		"LLMTAP_SHAPE_KEY="+shapeKey, "LANGSMITH_TRACING=false", "AI_SDK_LOG_WARNINGS=false", "AWS_EC2_METADATA_DISABLED=true")
	return cmd
}

func startNode(t testing.TB, d nodeDirs) *runner {
	t.Helper()
	nodetest.Watch(t, "node")
	return startRunner(t, "node", d.command(context.WithoutCancel(t.Context()), "runner.cjs"))
}

func nodeAgent(t *testing.T, d nodeDirs, natsURL, hosts, url string, calls int, until string) (string, int) {
	cmd := d.command(t.Context(), "agent.cjs", url, fmt.Sprint(calls), until)
	cmd.Env = append(cmd.Env, "LLMTAP_NATS_URL="+natsURL, "LLMTAP_HOSTS="+hosts)
	cmd.Env = append(cmd.Env, transport()...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	must.Do(t, cmd.Run(), &log)
	unrecorded := -1
	if _, err := fmt.Sscan(out.String(), &unrecorded); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return log.String(), unrecorded
}

// Calls over gRPC and WebSockets are counted, also those of the WebSocket of newer versions of Node.js.
func TestNodeUncaptured(t *testing.T) {
	nodetest.Watch(t, "node")
	cmd := nodePackages(t).command(t.Context(), "uncaptured.cjs")
	cmd.Env = append(cmd.Env, "NODE_OPTIONS=--experimental-websocket")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

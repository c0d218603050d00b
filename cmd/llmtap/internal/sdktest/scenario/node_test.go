package scenario

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/sdk/typescript/nodetest"
)

// nodes starts processes of Node.js with the TypeScript hook, or of Python with its hook. A process is used again when its hook is closed.
type nodes struct {
	t       *testing.T
	command []string
	environ []string
	free    []*node
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	const clients = "../contract/node"
	nodetest.Watch(t, "node")
	return &nodes{t: t, command: []string{"node", "node/agent.cjs"}, environ: []string{
		"LLMTAP_PACKAGE=" + nodetest.Hook(t), "NODE_PATH=" + filepath.Join(nodetest.Modules(t, clients), "node_modules"),
	}}
}

func newPythons(t *testing.T) *nodes {
	t.Helper()
	pythontest.Watch(t, "python")
	sdk := must.Get(filepath.Abs("../../../../../ingest/sdk/python"))(t)
	pythontest.Watch(t, filepath.Join(sdk, "llmtap"))
	python := pythontest.Interpreter(t, "nats-py>=2.6,<3", "httpx>=0.27,<1")
	return &nodes{t: t, command: []string{python, "python/agent.py"}, environ: []string{"PYTHONPATH=" + sdk, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}}
}

// A node is a process of Node.js or Python, which makes calls for an agent.
type node struct {
	pool   *nodes
	url    string
	client http.Client

	mu     sync.Mutex // guards stored
	stored chan<- string
}

// open returns a process with an open hook.
func (p *nodes) open(w *world) *node {
	w.t.Helper()
	var n *node
	if k := len(p.free) - 1; k >= 0 {
		n, p.free = p.free[k], p.free[:k]
	} else {
		n = p.start(w.t)
	}
	n.mu.Lock()
	n.stored = w.stored
	n.mu.Unlock()
	_, port, err := net.SplitHostPort(w.server.Listener.Addr().String())
	if err == nil {
		err = n.do(w.t.Context(), "open", row{"nats": w.natsURL, "service": w.service, "capture": w.mode.capture, "provider": port}, nil)
	}
	must.Do(w.t, err)
	return n
}

// start starts a process that ends with all scenarios.
func (p *nodes) start(t *testing.T) *node {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(p.t.Context()), p.command[0], p.command[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LLMTAP_SHAPE_KEY=the key of all processes"}, p.environ...)
	var log bytes.Buffer
	cmd.Stderr = &log
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	n := &node{pool: p}
	ended := make(chan struct{})
	p.t.Cleanup(func() {
		n.client.CloseIdleConnections()
		_ = in.Close()
		<-ended
		if err := cmd.Wait(); err != nil || log.Len() > 0 {
			p.t.Errorf("%s: %v\n%s", p.command[1], err, &log)
		}
	})
	if !lines.Scan() {
		close(ended)
		t.Fatalf("%s exited: %s", p.command[1], &log)
	}
	n.url = "http://127.0.0.1:" + lines.Text()
	n.client.Transport = new(http.Transport)
	go func() {
		defer close(ended)
		for lines.Scan() {
			n.mu.Lock()
			stored := n.stored
			n.mu.Unlock()
			stored <- strings.Clone(lines.Text())
		}
	}()
	return n
}

// labels are the labels of a call, in the names of the TypeScript hook.
type labels struct {
	Conversation string `json:"conversation,omitempty"`
	Run          string `json:"run"`
	Stage        string `json:"stage,omitempty"`
}

type labelsKey struct{}

// do runs a command, and decodes its result unless result is nil.
func (n *node) do(ctx context.Context, command string, args row, result any) error {
	resp, err := n.post(ctx, command, args)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && result != nil {
		err = json.Unmarshal(data, result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

func (n *node) post(ctx context.Context, command string, args any) (*http.Response, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/"+command, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return n.client.Do(req)
}

// Transport returns a transport that makes calls in the process, which has its own connections.
func (n *node) Transport(http.RoundTripper) http.RoundTripper { return n }

func (n *node) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	return n.post(req.Context(), "call", row{
		"url": req.URL.String(), "labels": req.Context().Value(labelsKey{}), "body": json.RawMessage(body), "key": accountOf(req.Header),
	})
}

// accountOf returns the key of a call; "" if it has none.
func accountOf(h http.Header) string {
	return cmp.Or(h.Get("X-Api-Key"), h.Get("X-Goog-Api-Key"), strings.TrimPrefix(h.Get("Authorization"), "Bearer "))
}

func (n *node) ToolStarted(ctx context.Context, callID string) {
	n.tool(ctx, "toolStarted", row{"id": callID, "labels": ctx.Value(labelsKey{})})
}

func (n *node) ToolEnded(ctx context.Context, callID string, err error) {
	end := row{"id": callID}
	if err != nil {
		end["error"] = err.Error()
	}
	n.tool(ctx, "toolEnded", end)
}

func (n *node) tool(ctx context.Context, command string, args row) {
	if err := n.do(ctx, command, args, nil); err != nil {
		n.pool.t.Error(err)
	}
}

func (n *node) Flush(ctx context.Context) error { return n.do(ctx, "flush", nil, nil) }

// Close stops recording. The process can be opened again.
func (n *node) Close() error {
	var stats struct{ Dropped, Errors int }
	if err := n.do(context.Background(), "close", nil, &stats); err != nil {
		return err
	}
	n.pool.free = append(n.pool.free, n)
	if stats.Dropped+stats.Errors > 0 {
		return fmt.Errorf("dropped or failed: %+v", stats)
	}
	return nil
}

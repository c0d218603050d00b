package llmtap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// testhelper is the path of the command ingest/sdk/testhelper, which runs nats-server in a process of its own: agents that
// import the hook would inherit a requirement of nats-server.
var testhelper string

func TestMain(m *testing.M) {
	if os.Getenv("LLMTAP_TEST_NATS") != "" { // the agent of TestKilled, which cannot remove the testhelper
		os.Exit(m.Run())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "testhelper-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		testhelper = filepath.Join(dir, "testhelper")
		build := exec.Command("go", "build", "-o", testhelper, ".")
		build.Dir = filepath.Join("..", "testhelper")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("build testhelper: %v\n%s", err, out))
		}
		before := runtime.NumGoroutine()
		if code := m.Run(); code != 0 {
			return code
		}
		for deadline := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				fmt.Fprintf(os.Stderr, "goroutines leak:\n%s\n", stacks[:runtime.Stack(stacks, true)])
				return 1
			}
		}
		return 0
	}())
}

var quiet = slog.New(slog.DiscardHandler)

// A natsd is a nats-server with the event stream, on loopback.
type natsd struct {
	url  string // for a hook
	port int
	js   jetstream.JetStream
	stop func() // returns when the server has exited
}

// startNATS runs a server whose user "agent" has the permissions that DESIGN.md grants a hook of service "svc".
func startNATS(t testing.TB, dir string, port int, maxPayload ...int) *natsd {
	t.Helper()
	args := []string{"nats", dir, strconv.Itoa(port)}
	for _, n := range maxPayload {
		args = append(args, strconv.Itoa(n))
	}
	cmd := exec.Command(testhelper, args...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	must.Do(t, errors.Join(err1, err2, cmd.Start()))
	n := &natsd{stop: sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("nats-server: %v", err)
		}
	})}
	t.Cleanup(n.stop)
	must.Do(t, must.Err(fmt.Fscan(out, &n.port)), "read the port of nats-server")
	n.url = agentURL(n.port)
	nc := must.Get(nats.Connect(strings.ReplaceAll(n.url, "agent", "admin")))(t)
	t.Cleanup(nc.Close)
	n.js = must.Get(jetstream.New(nc))(t)
	return n
}

func agentURL(port int) string { return fmt.Sprintf("nats://agent:agent@127.0.0.1:%d", port) }

// events reads and decodes all messages of the stream.
func (n *natsd) events(t testing.TB) []*event.Event {
	t.Helper()
	ctx := context.Background()
	stream := must.Get(n.js.Stream(ctx, event.StreamEvents))(t)
	info := must.Get(stream.Info(ctx))(t)
	var evs []*event.Event
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m := must.Get(stream.GetMsg(ctx, seq))(t)
		all, err := event.DecodeAll(m.Subject, event.Header(m.Header), m.Data)
		must.Do(t, err, "message", seq)
		evs = append(evs, all...)
	}
	return evs
}

// exchanges pairs requests and responses, none of them in parts, in the order of the requests.
func exchanges(t testing.TB, evs []*event.Event) [][2]*event.Event {
	t.Helper()
	var xs [][2]*event.Event
	at := make(map[string]int)
	for _, ev := range evs {
		switch ev.Kind {
		case event.Request:
			at[ev.Exchange] = len(xs)
			xs = append(xs, [2]*event.Event{ev})
		case event.Response:
			i, ok := at[ev.Exchange]
			if !ok || xs[i][1] != nil {
				t.Fatalf("exchange %s: response without request, or two", ev.Exchange)
			}
			xs[i][1] = ev
		default: // no half of an exchange
		}
	}
	for _, x := range xs {
		if x[1] == nil {
			t.Fatalf("exchange %s: no response", x[0].Exchange)
		}
	}
	return xs
}

func TestNATSDownAtOpen(t *testing.T) {
	dir, port := t.TempDir(), testnet.FreePort(t)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	h := openHook(t, agentURL(port), srv.URL, nil)
	for range 20 {
		call(t, h, srv.URL, strings.NewReader(question), nil)
	}
	if s := h.Stats(); s.Published != 0 || s.Pending != 40 {
		t.Fatalf("stats %+v", s)
	}
	n := startNATS(t, dir, port)
	flush(t, h)
	xs := exchanges(t, n.events(t))
	if len(xs) != 20 || h.Stats().Published != 20 {
		t.Fatalf("%d exchanges, stats %+v", len(xs), h.Stats())
	}
	for i, x := range xs {
		if x[0].Seq != uint64(2*i+1) || x[1].Seq != uint64(2*i+2) {
			t.Errorf("exchange %d: seq %d and %d", i, x[0].Seq, x[1].Seq)
		}
	}
}

func TestNATSDownAtClose(t *testing.T) {
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, agentURL(testnet.FreePort(t)), srv.URL, func(c *Config) { c.FlushTimeout = 20 * time.Millisecond })
	call(t, h, srv.URL, strings.NewReader(question), nil)
	must.Fail(t, h.Close(), "publish 1 exchange to nats://127.0.0.1:")
	must.Do(t, h.Close(), "second Close")
	// The transport works without the hook.
	call(t, h, srv.URL, strings.NewReader(question), nil)
}

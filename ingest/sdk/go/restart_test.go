package llmtap

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// quickReconnect shortens tests with a server that restarts.
var quickReconnect = []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}

// NATS restarts under load: no event is lost or duplicated, and every conversation keeps its order. At first there is no
// stream, as before the first start of a collector.
func TestNATSRestarts(t *testing.T) {
	const conversations, restarts = 8, 4
	dir := t.TempDir()
	n := startNATS(t, dir, -1)
	must.Do(t, n.js.DeleteStream(t.Context(), event.StreamEvents))
	h := openHook(t, n.url, "http://provider.test", func(c *Config) { c.NATSOptions = quickReconnect })
	rt := h.Transport(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}))
	stop := make(chan struct{})
	var agents sync.WaitGroup
	calls := make([]int, conversations)
	for c := range conversations {
		agents.Go(func() {
			ctx := WithConversation(t.Context(), fmt.Sprint("conv-", c))
			for {
				select {
				case <-stop:
					return
				default:
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider.test/v1", strings.NewReader("{}"))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := rt.RoundTrip(req); err != nil {
					t.Error(err)
				}
				calls[c]++
				time.Sleep(2 * time.Millisecond) // slow enough that nothing is dropped
			}
		})
	}
	stored := func(more uint64) {
		want := h.Stats().Events + more
		must.Wait(t, "more events", func() bool { return h.Stats().Events >= want })
	}
	time.Sleep(50 * time.Millisecond)
	must.Get(n.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}))(t)
	for range restarts {
		stored(200)
		n.stop()
		n = startNATS(t, dir, n.port)
	}
	stored(200)
	close(stop)
	agents.Wait()
	flush(t, h)

	total := 0
	for _, k := range calls {
		total += k
	}
	evs := n.events(t)
	if s := h.Stats(); len(evs) != 2*total || s.Published != uint64(total) || s.Dropped != 0 || s.Bytes != 0 {
		t.Fatalf("%d calls: %d events, stats %+v", total, len(evs), s)
	}
	last := make(map[string]uint64)
	seen := make(map[uint64]bool)
	for i, ev := range evs {
		c := ev.Labels.Conversation
		if ev.Seq <= last[c] || seen[ev.Seq] {
			t.Fatalf("event %d: seq %d of %s follows %d", i, ev.Seq, c, last[c])
		}
		last[c], seen[ev.Seq] = ev.Seq, true
	}
	t.Logf("%d calls, %d restarts", total, restarts)
}

// Close returns in time with a server that accepts connections and sends nothing, and with a redactor that blocks.
func TestCloseDuringHang(t *testing.T) {
	srv := startProvider(t, &traffic{}, 200, answer)
	const flushTimeout = 50 * time.Millisecond
	f := func(what, natsURL string, change func(*Config)) {
		t.Helper()
		h := openHook(t, natsURL, srv.URL, func(c *Config) {
			c.FlushTimeout = flushTimeout
			change(c)
		})
		resp := must.Get(post(t, h, t.Context(), srv.URL, "{}"))(t)
		resp.Body.Close()
		start := time.Now()
		must.Fail(t, h.Close(), "publish", what)
		// Ten times as long is still no hang: the network timeouts are seconds.
		if d := time.Since(start); d > 10*(flushTimeout+closeGrace) {
			t.Errorf("%s: Close took %v", what, d)
		}
	}
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	})
	f("nats hangs", "nats://"+silent.Addr().String(), func(*Config) {})
	silent.Close()
	conns.Wait()

	n := startNATS(t, t.TempDir(), -1)
	release := make(chan struct{})
	f("the redactor hangs", n.url, func(c *Config) {
		c.Redact = func(b []byte) []byte { <-release; return b }
	})
	close(release)
}

// TestAgentProcess is the process of an agent that TestKilled starts.
func TestAgentProcess(t *testing.T) {
	natsURL, provider := os.Getenv("LLMTAP_TEST_NATS"), os.Getenv("LLMTAP_TEST_PROVIDER")
	if natsURL == "" {
		t.Skip("runs in TestKilled")
	}
	h := openHook(t, natsURL, provider, nil)
	for i := 0; ; i++ {
		resp := must.Get(post(t, h, WithConversation(context.Background(), "conv-1"), provider, strings.Repeat(" ", 40<<10)+"{}"))(t)
		resp.Body.Close()
		fmt.Println("published", h.Stats().Published)
	}
}

// An agent is killed during calls: the acknowledged exchanges are stored whole, and no other event is corrupt.
func TestKilled(t *testing.T) {
	n := startNATS(t, t.TempDir(), -1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	defer srv.Close()
	exe := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestAgentProcess$")
	cmd.Env = append(os.Environ(), "LLMTAP_TEST_NATS="+n.url, "LLMTAP_TEST_PROVIDER="+srv.URL)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	acked := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Sscanf(lines.Text(), "published %d", &acked)
		if acked >= 50 {
			cmd.Process.Kill()
		}
	}
	cmd.Wait() // its error is the kill
	if acked < 50 {
		t.Fatalf("the agent exited after %d exchanges", acked)
	}
	whole, last := 0, uint64(0)
	for _, ev := range n.events(t) { // fails unless each decodes
		if ev.Seq != last+1 || ev.Parts != 1 {
			t.Errorf("seq %d follows %d, in %d parts", ev.Seq, last, ev.Parts)
		}
		if last = ev.Seq; ev.Kind == event.Response {
			whole++
		}
	}
	if whole < acked {
		t.Errorf("%d exchanges are stored, %d were acknowledged", whole, acked)
	}
}

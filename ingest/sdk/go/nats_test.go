package llmtap

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/event"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// A natsd is the real server with the stream of the contract, on loopback.
type natsd struct {
	*server.Server
	url string // of a hook
	js  jetstream.JetStream
}

// startNATS runs a server whose hook user "agent" may do no more than DESIGN.md allows a hook of service "svc".
func startNATS(t testing.TB, dir string, port int, change ...func(*server.Options)) *natsd {
	t.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "agent", Password: "agent", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"llmtap.v1.*.svc.*"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.svc.>"}},
			}},
		},
	}
	for _, f := range change {
		f(opts)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(5 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo("admin", "admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	createStream(t, js)
	return &natsd{Server: srv, js: js, url: agentURL(srv.Addr().(*net.TCPAddr).Port)}
}

func createStream(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, Duplicates: 2 * time.Minute, AllowDirect: true,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func agentURL(port int) string {
	return "nats://agent:agent@" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
}

// freePort is a port nobody listens on.
func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// events reads all messages of the stream, as the analyzer would.
func (n *natsd) events(t testing.TB) []*event.Event {
	t.Helper()
	ctx := context.Background()
	stream, err := n.js.Stream(ctx, event.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var evs []*event.Event
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := event.Decode(m.Subject, event.Header(m.Header), m.Data)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// exchanges pairs the events of a stream without parts, in the order of their requests.
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
				t.Fatalf("exchange %s: response without request, or twice", ev.Exchange)
			}
			xs[i][1] = ev
		default: // not of an exchange
		}
	}
	for _, x := range xs {
		if x[1] == nil {
			t.Fatalf("exchange %s: no response", x[0].Exchange)
		}
	}
	return xs
}

func TestNATSDownFromTheStart(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	h := openHook(t, agentURL(port), srv.URL, nil)
	c, base := client(h, srv.URL, 0)
	defer base.CloseIdleConnections()
	for range 20 {
		if _, err := c.Chat.Completions.New(t.Context(), params()); err != nil {
			t.Fatal(err)
		}
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

func TestNATSDownAtTheEnd(t *testing.T) {
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, agentURL(freePort(t)), srv.URL, func(c *Config) { c.FlushTimeout = 20 * time.Millisecond })
	c, base := client(h, srv.URL, 0)
	defer base.CloseIdleConnections()
	if _, err := c.Chat.Completions.New(t.Context(), params()); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err == nil || !strings.Contains(err.Error(), "publish 2 events") {
		t.Errorf("error %v", err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	// The transport still works.
	if _, err := c.Chat.Completions.New(t.Context(), params()); err != nil {
		t.Error(err)
	}
}

package contract

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/event"
)

// A natsd is the real server with the stream of the contract, on loopback. The user "agent" may do no more than a hook of
// this service needs.
type natsd struct {
	dir  string
	port int

	server *server.Server // nil while it is stopped
	admin  *nats.Conn
	stream jetstream.Stream
	mark   uint64 // the last message that was read
}

// newNATS returns a server that is still to be started.
func newNATS(t testing.TB) *natsd {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := &natsd{dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	t.Cleanup(n.stop)
	return n
}

func (n *natsd) url() string {
	return "nats://agent:agent@" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port}).String()
}

func (n *natsd) start(t testing.TB) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.dir, NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "agent", Password: "agent", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"llmtap.v1.*." + service + ".*"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX." + service + ".>"}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.server = srv
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	if n.admin, err = nats.Connect(srv.ClientURL(), nats.UserInfo("admin", "admin")); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(n.admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n.stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, Duplicates: 2 * time.Minute, AllowDirect: true,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (n *natsd) stop() {
	if n.server == nil {
		return
	}
	n.admin.Close()
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
}

// toggle stops the server, or starts it again.
func (n *natsd) toggle(t testing.TB) {
	if n.server != nil {
		n.stop()
	} else {
		n.start(t)
	}
}

// news returns the messages that were stored since the last call.
func (n *natsd) news(t testing.TB) (msgs []*jetstream.RawStreamMsg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := n.stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n.mark < info.State.LastSeq {
		n.mark++
		m, err := n.stream.GetMsg(ctx, n.mark)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, m)
	}
	return msgs
}

package contract

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	testnats "github.com/llmtap/llmtap/ingest/sdk/testhelper/natsd"
)

// A natsd is a nats-server on a fixed port, which can be stopped and started.
type natsd struct {
	dir  string
	port int
	tls  func(*server.Options) // nil: no TLS

	server *server.Server // nil while it is stopped
	admin  *nats.Conn
	stream jetstream.Stream
	mark   uint64 // sequence of the last message that was read
}

// newNATS returns a stopped server.
func newNATS(t testing.TB) *natsd {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	n := &natsd{dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	t.Cleanup(n.stop)
	return n
}

func (n *natsd) url() string {
	return "nats://agent:agent@" + n.address()
}

func (n *natsd) address() string {
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port}).String()
}

func (n *natsd) start(t testing.TB) {
	t.Helper()
	n.server = must.Get(testnats.Start(n.dir, n.port, 0, n.tls))(t)
	n.admin = must.Get(nats.Connect("", nats.InProcessServer(n.server), nats.UserInfo("admin", "admin")))(t)
	js := must.Get(jetstream.New(n.admin))(t)
	n.stream = must.Get(js.Stream(t.Context(), event.StreamEvents))(t)
}

func (n *natsd) stop() {
	if n.server == nil {
		return
	}
	n.admin.Close()
	testnats.Stop(n.server)
	n.server = nil
}

// toggle stops a running server and starts a stopped one.
func (n *natsd) toggle(t testing.TB) {
	if n.server != nil {
		n.stop()
	} else {
		n.start(t)
	}
}

// newMessages returns the messages stored since the last call; the events of a frame as messages of their own.
func (n *natsd) newMessages(t testing.TB) (msgs []*jetstream.RawStreamMsg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info := must.Get(n.stream.Info(ctx))(t)
	for n.mark < info.State.LastSeq {
		n.mark++
		m := must.Get(n.stream.GetMsg(ctx, n.mark))(t)
		if !event.IsFrame(m.Subject) {
			msgs = append(msgs, m)
			continue
		}
		for _, one := range must.Get(event.SplitFrame(m.Subject, event.Header(m.Header), m.Data))(t) {
			one.Header[event.HeaderMsgID] = must.Get(event.Decode(one.Subject, one.Header, one.Data))(t).Encode()[event.HeaderMsgID] // frames have none
			alone := *m
			alone.Subject, alone.Header, alone.Data = one.Subject, nats.Header(one.Header), one.Data
			msgs = append(msgs, &alone)
		}
	}
	return msgs
}

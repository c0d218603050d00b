// Package natsd runs the nats-server for the tests of the hooks.
package natsd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Start runs a nats-server on loopback with the event stream, stored in dir. If port is -1, a free port is chosen; if
// maxPayload is 0, the default applies. User "agent" has the permissions of a hook of service "svc"; user "other" may not
// publish its events; user "admin" has all permissions. change may change the options.
func Start(dir string, port, maxPayload int, change func(*server.Options)) (*server.Server, error) {
	o := &server.Options{
		Host: "127.0.0.1", Port: port, MaxPayload: int32(maxPayload), JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "agent", Password: "agent", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"llmtap.v1.*.svc.*"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.svc.>"}},
			}},
			{Username: "other", Password: "other", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"llmtap.v1.*.other.*"}},
			}},
		},
	}
	if change != nil {
		change(o)
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("create nats-server: %w", err)
	}
	srv.Start()
	if err := createStream(srv); err != nil {
		Stop(srv)
		return nil, err
	}
	return srv, nil
}

// Stop stops srv and waits until it has stopped.
func Stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

func createStream(srv *server.Server) error {
	if !srv.ReadyForConnections(20 * time.Second) {
		return errors.New("nats-server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo("admin", "admin"))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, Duplicates: 2 * time.Minute, AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	return nil
}

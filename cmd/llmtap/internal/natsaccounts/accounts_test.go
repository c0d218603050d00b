package natsaccounts

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The users that Write makes can do on a nats-server what they need, and nothing else.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	write := func() []File {
		t.Helper()
		return must.Get(Write(dir, "nats://127.0.0.1:4222", []string{"checkout-agent", "agent with spaces", "checkout-agent"}))(t)
	}
	if files := write(); len(files) != 4 || !files[0].New || !files[1].New {
		t.Errorf("%+v", files)
	}
	for _, f := range write() {
		must.Equal(t, f.New, f.For == "nats-server", "second time: %+v", f)
		if info, err := os.Stat(f.Name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name, info.Mode(), err)
		}
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, ConfigFile)))(t)
	config := filepath.Join(dir, "nats-server.conf")
	must.Do(t, os.WriteFile(config, []byte("listen: 127.0.0.1:-1\njetstream {store_dir: "+filepath.Join(dir, "streams")+"}\ninclude "+ConfigFile+"\n"), 0o600))
	opts := must.Get(server.ProcessConfigFile(config))(t)
	opts.NoSigs, opts.NoLog = true, true
	srv := must.Get(server.NewServer(opts))(t)
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	login := func(user string) string {
		t.Helper()
		line := must.Get(os.ReadFile(filepath.Join(dir, user+".env")))(t)
		_, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		u := must.Get(url.Parse(value))(t)
		if password, _ := u.User.Password(); len(password) < 40 || strings.Contains(string(text), password) {
			t.Errorf("the password of %s is short, or in %s", user, ConfigFile)
		}
		u.Host = strings.TrimPrefix(srv.ClientURL(), "nats://")
		return u.String()
	}

	cfg := jetstream.Default()
	cfg.URL = login(collector)
	conn := must.Get(jetstream.Connect(t.Context(), cfg, nil, nil))(t)
	defer conn.Close()
	must.Do(t, conn.Ensure(t.Context()), "llmtap cannot create its streams")

	nc := must.Get(nats.Connect(login("checkout-agent"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))(t)
	defer nc.Close()
	js := must.Get(natsjs.New(nc, natsjs.WithDefaultTimeout(5*time.Second)))(t)
	must.Do(t, must.Err(js.Publish(t.Context(), "llmtap.v1.request.checkout-agent.00", []byte("{}"))), "publish as an agent")
	must.Fail(t, must.Err(nc.Request("llmtap.v1.request.search-agent.00", []byte("{}"), 300*time.Millisecond)), "", "an agent can publish for another service")
	must.Do(t, nc.PublishRequest("llmtap.v1.request.checkout-agent.00", "$KV."+event.BucketCheckpoint+".p0of1", []byte("{}")))
	must.Get(js.Publish(t.Context(), "llmtap.v1.request.checkout-agent.00", []byte("{}")))(t)
	if kv, err := conn.KV(t.Context(), event.BucketCheckpoint); err != nil {
		t.Fatal(err)
	} else if v, _, err := kv.Get(t.Context(), "p0of1"); err == nil {
		t.Errorf("an agent has written the checkpoint: %+v", v)
	}
	must.Fail(t, must.Err(nc.Request("$JS.API.STREAM.INFO."+event.StreamEvents, nil, 300*time.Millisecond)), "", "an agent can use JetStream's API")
	if _, err := nats.Connect(strings.Replace(login("checkout-agent"), ":", ":x", 2)); !errors.Is(err, nats.ErrAuthorization) && err == nil {
		t.Error("a wrong password is accepted")
	}
	must.Fail(t, must.Err(Write(dir, "nats://u:p@h", nil)), "", "a URL with a user is accepted")
	must.Fail(t, must.Err(Write(dir, "nats://h", []string{collector})), "", "a service with the name of llmtap's user is accepted")
}

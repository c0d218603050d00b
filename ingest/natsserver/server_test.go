package natsserver

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T) Config {
	cfg := Default()
	cfg.AllowAll = true
	cfg.Dir, cfg.Port, cfg.Logger = filepath.Join(t.TempDir(), "nats"), -1, slog.New(slog.DiscardHandler)
	return cfg
}

func TestStreamsSurviveRestart(t *testing.T) {
	cfg := config(t)
	for round := range 2 {
		s := must.Get(Start(t.Context(), cfg))(t)
		nc := must.Get(nats.Connect(s.URL()))(t)
		js := must.Get(nc.JetStream())(t)
		if round == 0 {
			must.Get(js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s"}}))(t)
			must.Get(js.Publish("s", []byte("kept")))(t)
		} else if m, err := js.GetMsg("S", 1); err != nil || string(m.Data) != "kept" {
			t.Errorf("after a restart: %v, %v", m, err)
		}
		nc.Close()
		s.Shutdown()
		s.Shutdown()
	}
}

func TestStartDirectoryInUse(t *testing.T) {
	cfg := config(t)
	s := must.Get(Start(t.Context(), cfg))(t)
	defer s.Shutdown()
	must.Fail(t, must.Err(Start(t.Context(), cfg)), "is in use by another server", "second server on the directory")
}

func TestStartPortInUse(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	cfg := config(t)
	cfg.Port = l.Addr().(*net.TCPAddr).Port
	must.Fail(t, must.Err(Start(t.Context(), cfg)), "choose another port", "server on a used port")
	cfg.Port = -1 // the failed start released its directory
	s := must.Get(Start(t.Context(), cfg))(t)
	s.Shutdown()
}

func TestStartInvalidDirectory(t *testing.T) {
	cfg := config(t)
	must.Do(t, os.WriteFile(cfg.Dir, nil, 0o600))
	must.Fail(t, must.Err(Start(t.Context(), cfg)), "create the stream directory", "file instead of a directory")
}

func TestToken(t *testing.T) {
	cfg := config(t)
	cfg.Token = "secret"
	s := must.Get(Start(t.Context(), cfg))(t)
	defer s.Shutdown()
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Error("connected without the token")
	}
	nc := must.Get(nats.Connect(s.URL(), nats.Token("secret"), nats.Timeout(5*time.Second)))(t)
	nc.Close()
}

func TestValidate(t *testing.T) {
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := Default()
		c.Dir = "d"
		change(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("", func(*Config) {})
	f("", func(c *Config) { c.Host = "::1" })
	f("", func(c *Config) { c.Host, c.Token = "0.0.0.0", "t" })
	f("dir: ", func(c *Config) { c.Dir = "" })
	f("host: ", func(c *Config) { c.Host = "0.0.0.0" })
	f("host: ", func(c *Config) { c.Host = "" })
	f("port: ", func(c *Config) { c.Port = 0 })
	f("port: ", func(c *Config) { c.Port = 70000 })
	f("max_payload: ", func(c *Config) { c.MaxPayload = 1000 })
	f("max_payload: ", func(c *Config) { c.MaxPayload = 64 << 20 })
}

func TestStartIsQuiet(t *testing.T) {
	var out bytes.Buffer
	cfg := config(t)
	cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s := must.Get(Start(t.Context(), cfg))(t)
	s.Shutdown()
	if out.Len() > 0 {
		t.Errorf("start and shutdown log:\n%s", out.String())
	}
}

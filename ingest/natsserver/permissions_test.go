package natsserver

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/secret"
)

// startRestricted starts a server with permissions, and returns its URL and a connection that may do everything.
func startRestricted(t *testing.T, change func(*Config)) (*Server, jetstream.JetStream) {
	t.Helper()
	cfg := config(t)
	cfg.AllowAll = false
	change(&cfg)
	s := must.Get(Start(t.Context(), cfg))(t)
	t.Cleanup(s.Shutdown)
	js := login(t, s, s.Token())
	for _, c := range []jetstream.StreamConfig{{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}, {Name: "KV_x", Subjects: []string{"$KV.x.>"}}} {
		must.Get(js.CreateStream(t.Context(), c))(t)
	}
	return s, js
}

// login connects with a token.
func login(t *testing.T, s *Server, token string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.Token(token), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must.Do(t, err, "token", token)
	t.Cleanup(nc.Close)
	return must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(5*time.Second)))(t)
}

func publish(t *testing.T, js jetstream.JetStream, service string) error {
	_, err := js.Publish(t.Context(), subject(service), []byte("{}"))
	return err
}

func subject(service string) string { return "llmtap.v1.request." + service + ".00" }

// Tokens decide what clients may do. Those of services are hashes, and each may be replaced while the old one is still accepted.
func TestTokens(t *testing.T) {
	token, hash := secret.NewToken()
	s, _ := startRestricted(t, func(cfg *Config) {
		cfg.Token, cfg.CollectorToken = "all-services", "elsewhere"
		cfg.ServiceTokens = map[string]string{"checkout-agent": "old " + hash, "agent with spaces": "spaces"}
	})
	for _, sent := range []string{"", "wrong", hash} {
		if nc, err := nats.Connect(s.URL(), nats.Token(sent)); err == nil {
			nc.Close()
			t.Errorf("the token %q is accepted", sent)
		}
	}
	for _, sent := range []string{"old", token} {
		js := login(t, s, sent)
		must.Do(t, publish(t, js, "checkout-agent"), "token of the service")
		must.Fail(t, must.Err(js.Conn().Request(subject("search-agent"), []byte("{}"), 300*time.Millisecond)), "", "a service can publish for another")
	}
	must.Do(t, publish(t, login(t, s, "spaces"), event.ServiceToken("agent with spaces")), "token of a service with spaces")
	must.Do(t, publish(t, login(t, s, "all-services"), "search-agent"), "token of all services")
	must.Do(t, must.Err(login(t, s, "elsewhere").Stream(t.Context(), event.StreamEvents)), "token of collectors")
	must.Equal(t, must.Get(os.Stat(TokenFile(s.cfg.Dir)))(t).Mode().Perm(), 0o600, "the file of this machine's token")
}

// Hooks may publish, and nothing else: neither read what others publish, nor change a stream, nor write state. Replies are a way that
// a server takes for a client, so they are tried, too.
func TestPermissions(t *testing.T) {
	s, all := startRestricted(t, func(*Config) {}) // without tokens, as by default
	hook := login(t, s, "")
	must.Do(t, publish(t, hook, "checkout-agent"))
	nc := hook.Conn()
	for _, subject := range []string{">", "llmtap.>", "_LLMTAP_INBOX.>", "$KV.>", "$JS.>", "$SYS.>"} {
		errs := make(chan error, 1)
		nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case errs <- err:
			default:
			}
		})
		must.Get(nc.Subscribe(subject, func(*nats.Msg) {}))(t)
		select {
		case err := <-errs:
			must.Contain(t, err.Error(), "ermissions", subject, err)
		case <-time.After(time.Minute):
			t.Errorf("a hook may subscribe to %s", subject)
		}
	}
	state := func() string {
		t.Helper()
		text := ""
		names := all.StreamNames(t.Context())
		for name := range names.Name() {
			st := must.Get(all.Stream(t.Context(), name))(t)
			info := must.Get(st.Info(t.Context()))(t)
			text += fmt.Sprintln(name, info.State.FirstSeq, info.State.Consumers)
		}
		return text
	}
	before := state()
	requests := []string{
		"$JS.API.INFO", "$JS.API.STREAM.DELETE.LLMTAP", "$JS.API.STREAM.PURGE.LLMTAP", "$JS.API.STREAM.MSG.GET.LLMTAP", "$JS.API.DIRECT.GET.LLMTAP",
		"$JS.API.CONSUMER.CREATE.LLMTAP", "$JS.API.CONSUMER.MSG.NEXT.LLMTAP.x", "$KV.x.key", "llmtap.tally.0", "llmtap.dead.x", "$SYS.REQ.SERVER.PING",
	}
	for _, target := range requests {
		if m, err := nc.Request(target, []byte("{}"), 100*time.Millisecond); err == nil {
			t.Errorf("%s answers a hook: %s", target, m.Data)
		}
		must.Do(t, nc.PublishRequest(subject("checkout-agent"), target, []byte("{}")))
	}
	if err := publish(t, hook, "checkout-agent"); err != nil { // after all of these
		t.Fatal(err)
	}
	must.Equal(t, state(), before, "a hook has changed streams: before\n%safter", before)
	kv := must.Get(all.Stream(t.Context(), "KV_x"))(t)
	info := must.Get(kv.Info(t.Context()))(t)
	must.Equal(t, info.State.Msgs, 0, "a hook has written state: %+v", info.State)
}

// With a key, streams are encrypted on disk; without it, or with another one, they cannot be read.
func TestEncryption(t *testing.T) {
	key := t.TempDir() + "/key"
	must.Do(t, os.WriteFile(key, []byte("a key of the test\n"), 0o600))
	cfg := config(t)
	const text = "a text that is easy to find"
	open := func() (*Server, jetstream.JetStream) {
		t.Helper()
		s := must.Get(Start(t.Context(), cfg))(t)
		return s, login(t, s, "")
	}
	for _, encrypted := range []bool{false, true} {
		cfg.Dir, cfg.EncryptionKeyFile = t.TempDir(), ""
		if encrypted {
			cfg.EncryptionKeyFile = key
		}
		s, js := open()
		must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}}))(t)
		must.Get(js.Publish(t.Context(), "a", []byte(text)))(t)
		s.Shutdown()
		if found := contains(t, cfg.Dir, text); found == encrypted {
			t.Errorf("encrypted %v: found %v", encrypted, found)
		}
		s, js = open()
		st := must.Get(js.Stream(t.Context(), "A"))(t)
		must.Equal(t, string(must.Get(st.GetMsg(t.Context(), 1))(t).Data), text, "after a restart")
		s.Shutdown()
	}
}

// contains reports whether a file below dir contains text.
func contains(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	must.Do(t, err)
	return found
}

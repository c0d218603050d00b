package collector

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// The role receive alone stores the events of the example in the README, from clients with the token.
func TestReceive(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) { cfg.Roles, cfg.Receive.Token = []string{config.RoleReceive}, "s3cret" })
	collectortest.RunReady(t, c)
	script := must.Get(os.ReadFile("../../testdata/events.sh"))(t)
	curl := func(token string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "set -e\n"+string(script))
		cmd.Env = append(os.Environ(), "LLMTAP_ENDPOINT="+c.receive.url(), "LLMTAP_TOKEN="+token)
		out, err := cmd.Output()
		return string(out), err
	}
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, this test requires curl")
	}
	must.Equal(t, strings.TrimSpace(must.Get(curl("s3cret"))(t)), `{"accepted":2,"rejected":[],"warnings":[]}`, "answer")
	if out, err := curl("wrong"); err == nil || !strings.Contains(out, "receive.token") {
		t.Errorf("%s, %v", out, err)
	}
	var got []string
	nc := must.Get(nats.Connect(c.NATSURL(), nats.Token(collectortest.CollectorToken)))(t)
	defer nc.Close()
	js := must.Get(natsjs.New(nc))(t)
	err := collectortest.ReplayStream(t.Context(), js, event.StreamEvents, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		events, err := event.DecodeAll(m.Subject(), event.Header(m.Headers()), m.Data())
		for _, e := range events {
			got = append(got, fmt.Sprintf("%s %s %s %s %d", e.Origin, e.Kind, e.Labels.Conversation, e.Exchange, e.Status))
		}
		return err
	})
	if err != nil || strings.Join(got, "; ") != "http request order-17 call-1 0; http response order-17 call-1 200" {
		t.Errorf("%q, %v", got, err)
	}
}

// Without NATS the receiver answers 503 at once, and /readyz says so.
func TestReceiveWithoutNATS(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.NATS.URL = []string{config.RoleReceive}, fmt.Sprintf("nats://127.0.0.1:%d", testnet.FreePort(t))
	})
	collectortest.Run(t, c)
	began := time.Now()
	resp := must.Get(http.Post(c.receive.url()+"/v1/events", "application/json", strings.NewReader(`{"kind":"request","exchange":"1"}`)))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "NATS") || time.Since(began) > 3*time.Second {
		t.Errorf("%d %s after %v", resp.StatusCode, body, time.Since(began))
	}
	must.Fail(t, must.Err(c.ready(t.Context())), "receive: answers 503", "ready")
}

// If the default address is in use, other roles run nevertheless, and the process says what to do.
func TestReceiveInUse(t *testing.T) {
	t.Parallel()
	f := func(inUse bool, change func(*config.Config)) {
		t.Helper()
		cfg := collectortest.Config(t, func(cfg *config.Config) {
			cfg.Roles, cfg.Receive.Listen = []string{config.RoleProxy, config.RoleReceive}, config.Default().Receive.Listen
			change(cfg)
		})
		c, err := Open(t.Context(), cfg, Options{Logger: testLogger()})
		if !inUse {
			if err == nil {
				c.Close()
			}
			must.Fail(t, err, "choose another address with --receive-listen, or omit receive from --roles", "open")
			return
		}
		must.Do(t, err)
		collectortest.RunReady(t, c)
		var out strings.Builder
		c.Describe(t.Context(), &out, "no configuration file")
		if s := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(s, "Over HTTP 127.0.0.1:4318 is in use, perhaps by an OpenTelemetry collector") {
			t.Error(out.String())
		}
		resp := must.Get(http.Get("http://" + c.httpAddr() + "/readyz"))(t)
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !strings.Contains(string(body), "receive: 127.0.0.1:4318 is in use") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if l, err := net.Listen("tcp", config.Default().Receive.Listen); err == nil {
		t.Cleanup(func() { l.Close() })
	} // else another program uses it, which is as good
	f(true, func(*config.Config) {})
	f(false, func(cfg *config.Config) { cfg.Roles = []string{config.RoleReceive} })
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	f(false, func(cfg *config.Config) { cfg.Receive.Listen = l.Addr().String() })
}

package natsserver

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// startGuarded starts a server with the token "secret".
func startGuarded(t *testing.T, log *strings.Builder, reg prometheus.Registerer) *Server {
	t.Helper()
	cfg := config(t)
	cfg.Token, cfg.Logger, cfg.Registerer = "secret", slog.New(slog.NewTextHandler(log, nil)), reg
	s := must.Get(Start(t.Context(), cfg))(t)
	t.Cleanup(s.Shutdown)
	return s
}

// Refused clients are counted by address, name and reason, and logged once.
func TestRefused(t *testing.T) {
	var log strings.Builder
	reg := prometheus.NewRegistry()
	s := startGuarded(t, &log, reg)
	began := time.Now()
	refuse := func(n int, options ...nats.Option) {
		t.Helper()
		for range n {
			if nc, err := nats.Connect(s.URL(), options...); err == nil {
				nc.Close()
				t.Fatal("connected without the token")
			}
		}
	}
	refuse(3, nats.Token("stale"), nats.Name("llmtap-go/checkout"))
	refuse(1, nats.Name("bad\x1b[31m\nname"))
	refuse(1, nats.UserInfo("agent", "secret"))

	counts := map[string]int{}
	for _, r := range s.Refused(began) {
		counts[fmt.Sprintf("%s %s: %s", r.Address, r.Client, r.Reason)] = r.Count
		if r.First.Before(began) || r.Last.Before(r.First) || r.Last.After(time.Now()) {
			t.Errorf("times of %+v", r)
		}
	}
	for want, n := range map[string]int{
		"127.0.0.1 llmtap-go/checkout: wrong token": 3, "127.0.0.1 bad[31mname: no token": 1, "127.0.0.1 : no token": 1,
	} {
		must.Equal(t, counts[want], n, "%q in %v", want, counts)
	}
	if len(counts) != 3 || len(s.Refused(time.Now())) != 0 {
		t.Errorf("%v, later %v", counts, s.Refused(time.Now()))
	}
	want := `
# HELP llmtap_ingest_nats_refused_connections_total Connections that the embedded NATS refused, by reason.
# TYPE llmtap_ingest_nats_refused_connections_total counter
llmtap_ingest_nats_refused_connections_total{reason="no_token"} 2
llmtap_ingest_nats_refused_connections_total{reason="wrong_token"} 3
`
	must.Do(t, testutil.GatherAndCompare(reg, strings.NewReader(want)))
	s.Shutdown() // ends writing to log
	text := log.String()
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, `address=127.0.0.1 client=llmtap-go/checkout reason="wrong token" connections=1`) {
		t.Error(text)
	}
	for _, secret := range []string{"stale", "secret"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q in %s", secret, text)
		}
	}
}

// A client that does not speak the protocol is disconnected, and listed.
func TestDisconnected(t *testing.T) {
	var log strings.Builder
	s := startGuarded(t, &log, nil)
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://")))(t)
	defer c.Close()
	must.Get(fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n"))(t)
	var rs []Refusal
	must.Wait(t, "a refusal", func() bool { rs = s.Refused(time.Now().Add(-time.Hour)); return len(rs) > 0 })
	if len(rs) != 1 || rs[0].Address != "127.0.0.1" || rs[0].Count != 1 || rs[0].Reason != ReasonNoLogin {
		t.Errorf("%+v", rs)
	}
	s.Shutdown() // ends writing to log
}

func TestRefusedIsBounded(t *testing.T) {
	var log strings.Builder
	g := must.Get(newGuard(&Config{Token: "t", Logger: slog.New(slog.NewTextHandler(&log, nil))}, ""))(t)
	now := time.Now()
	for i := range maxRefusals + 10 {
		g.refuse(refusalKey{fmt.Sprint(i), "", ReasonNoToken}, now.Add(time.Duration(i)*time.Second))
	}
	rs := g.since(now)
	must.Equal(t, len(rs), maxRefusals, "clients")
	for _, r := range rs {
		if !r.Last.After(now.Add(9 * time.Second)) {
			t.Errorf("%+v is not among the latest", r)
		}
	}
	// One client that tries every second is logged at a growing interval: at 0, 1, 3, 7, 15, 31 and 63 minutes.
	log.Reset()
	for i := range 100 * 60 {
		g.refuse(refusalKey{"one", "", ReasonNoToken}, now.Add(time.Hour+time.Duration(i)*time.Second))
	}
	must.Equal(t, strings.Count(log.String(), "\n"), 7, "lines")
}

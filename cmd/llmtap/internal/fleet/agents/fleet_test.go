package agents

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestMain(m *testing.M) {
	slowtest.Computes()
	goleak.VerifyTestMain(m)
}

// startNATS returns the URL of a nats-server with the stream of the contract, and the stream.
func startNATS(t *testing.T) (string, jetstream.Stream) {
	t.Helper()
	cfg := natsserver.Default()
	cfg.AllowAll = true
	cfg.Dir, cfg.Port, cfg.Logger = t.TempDir(), -1, slog.New(slog.DiscardHandler)
	srv := must.Get(natsserver.Start(t.Context(), cfg))(t)
	t.Cleanup(srv.Shutdown)
	nc := must.Get(nats.Connect(srv.URL()))(t)
	t.Cleanup(nc.Close)
	js := must.Get(jetstream.New(nc))(t)
	stream := must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}))(t)
	return srv.URL(), stream
}

// runFleet runs the fleet without delay and returns its report and the events on NATS.
func runFleet(t *testing.T, seed uint64) (Report, []*event.Event) {
	t.Helper()
	natsURL, stream := startNATS(t)
	p := httptest.NewServer(provider.New(provider.Config{Seed: seed}))
	defer p.Close()
	cfg := Default()
	cfg.ProviderURL, cfg.NATSURL, cfg.Duration, cfg.Seed = p.URL, natsURL, 0, seed
	r := must.Get(Run(t.Context(), cfg))(t)
	info := must.Get(stream.Info(t.Context()))(t)
	var evs []*event.Event
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m := must.Get(stream.GetMsg(t.Context(), seq))(t)
		evs = append(evs, must.Get(event.DecodeAll(m.Subject, event.Header(m.Header), m.Data))(t)...)
	}
	return r, evs
}

// A share counts the failed calls of a stage.
type share struct{ calls, failed int }

func (s share) failing() float64 { return float64(s.failed) / float64(max(1, s.calls)) }

func TestShares(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		r, evs := runFleet(t, seed)
		if r.Published != uint64(r.Exchanges) || r.Dropped != 0 || r.Pending != 0 || len(evs) != 2*r.Exchanges {
			t.Errorf("seed %d: %d exchanges, %d published, %d dropped, %d events on NATS", seed, r.Exchanges, r.Published, r.Dropped, len(evs))
		}
		if r.Exchanges < 1000 || r.Exchanges > 2000 {
			t.Errorf("seed %d: %d exchanges, want 1000 to 2000", seed, r.Exchanges)
		}
		shares, incidents := make(map[string]share), make(map[string]int)
		for _, ev := range evs {
			if ev.Kind != event.Response {
				continue
			}
			k := ev.Labels.Service + " " + ev.Labels.Stage
			s := shares[k]
			s.calls++
			if ev.Status != 200 {
				s.failed++
				incidents[k+" "+ev.Labels.ServiceVersion]++
			}
			shares[k] = s
			// No other stage may reach the threshold of the alert rules: StageFailureRate.
			if k != "checkout-agent planner" && float64(s.failed-5) > 0.10*float64(s.calls) {
				t.Errorf("seed %d: %s: %d of %d calls failed", seed, k, s.failed, s.calls)
			}
		}
		if s := shares["checkout-agent planner"]; s.failing() < 0.40 || s.failing() > 0.50 {
			t.Errorf("seed %d: %d of %d planner calls failed, want 40 to 50 %%", seed, s.failed, s.calls)
		}
		for _, k := range []string{"checkout-agent planner 2.4.0", "research-agent executor 1.8.2", "support-agent executor 0.31.0"} {
			if incidents[k] == 0 {
				t.Errorf("seed %d: no call of %s failed", seed, k)
			}
			delete(incidents, k)
		}
		if len(incidents) > 0 {
			t.Errorf("seed %d: other stages failed: %v", seed, incidents)
		}
		t.Logf("seed %d: %d exchanges, %d failed: %v", seed, r.Exchanges, r.Failed, shares)
	}
}

func TestRunContext(t *testing.T) {
	natsURL, _ := startNATS(t)
	p := httptest.NewServer(provider.New(provider.Default()))
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	cfg := Default()
	cfg.ProviderURL, cfg.NATSURL = p.URL, natsURL
	r := must.Get(Run(ctx, cfg))(t)
	if r.Exchanges == 0 || r.Published != uint64(r.Exchanges) {
		t.Errorf("report %+v", r)
	}
}

func TestInvalidConfig(t *testing.T) {
	must.Fail(t, must.Err(Run(t.Context(), Config{ProviderURL: "localhost"})), "", "a provider without scheme")
	must.Fail(t, must.Err(Run(t.Context(), Config{ProviderURL: "http://127.0.0.1:1", NATSURL: "http://127.0.0.1:1"})), "", "a wrong NATS scheme")
}

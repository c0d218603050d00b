package collector

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// A wrong token and a wrong channel are logged at start, listed by /readyz and the banner, and checked again until they
// work. The process is ready nevertheless.
func TestReceiverChecks(t *testing.T) {
	t.Parallel()
	workspace := slack.New(slack.Config{Channels: []string{"oncall"}})
	srv := httptest.NewServer(workspace)
	defer srv.Close()
	f := func(token, channel, want string) {
		t.Helper()
		var log testnet.Buffer
		cfg := collectortest.Config(t, func(cfg *config.Config) {
			cfg.Roles, cfg.NATS.URL = []string{config.RoleAlert}, collectortest.StartNATS(t, "")
			cfg.ClickHouse.DSN, cfg.Batcher.DrainTimeout = "http://127.0.0.1:1/llmtap", noStore
			cfg.Slack.Token, cfg.Slack.Channel, cfg.Slack.APIURL = token, channel, srv.URL+"/api/"
		})
		c := must.Get(Open(t.Context(), cfg, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
		c.receivers.retry = func() backoff.BackOff { return backoff.NewConstantBackOff(20 * time.Millisecond) }
		collectortest.Run(t, c)
		<-c.receivers.done
		var banner strings.Builder
		c.Describe(t.Context(), &banner, "no configuration file")
		resp := must.Get(http.Get("http://" + c.httpAddr() + "/readyz"))(t)
		defer resp.Body.Close()
		ready := must.Get(io.ReadAll(resp.Body))(t)
		value := testutil.ToFloat64(c.receivers.works.WithLabelValues("slack", channel))
		if want == "" {
			if err := c.receivers.failed(); err != nil || value != 1 || strings.Contains(log.String(), "receiver") {
				t.Errorf("%v, metric %v\n%s", err, value, log.String())
			}
			return
		}
		text := strings.Join(strings.Fields(banner.String()), " ")
		if value != 0 || !strings.Contains(text, want) || !strings.Contains(string(ready), want) || strings.Count(log.String(), want) != 1 {
			t.Errorf("metric %v\n%s\n%s\n%s", value, banner.String(), ready, log.String())
		}
	}
	f("xoxb-1", "#oncall", "")
	f("wrong", "#oncall", "verify the token: auth.test: invalid_auth; check slack.token: Slack does not know it")
	f("xoxb-1", "#onclal", "find the channel: channel_not_found: no channel is named #onclal; correct slack.channel")
}

// Presses of buttons that do not arrive are reported while messages are sent; the failed check of a receiver says more.
func TestReceiverServing(t *testing.T) {
	t.Parallel()
	var log testnet.Buffer
	c := &receiverChecks{
		receivers: []Receiver{{Kind: "slack", Receiver: alerts.Receiver{Destination: "#oncall"}}},
		failures:  make([]error, 1), serving: make([]error, 1), logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	f := func(want string) {
		t.Helper()
		got := ""
		if err := c.failed(); err != nil {
			got = err.Error()
		}
		must.Equal(t, got, want, "receivers")
	}
	broken := errors.New("buttons do not work: token_revoked")
	c.served(0, nil)
	f("")
	c.served(0, broken)
	c.served(0, broken)
	f("slack #oncall: buttons do not work: token_revoked")
	c.failures[0] = errors.New("not_in_channel")
	f("slack #oncall does not work: not_in_channel")
	c.failures[0] = nil
	c.served(0, nil)
	f("")
	if got := log.String(); strings.Count(got, "do not work, retrying") != 1 || strings.Count(got, "buttons of an alert receiver work") != 1 {
		t.Error(got)
	}
}

// A receiver that fails at start is checked until it works.
func TestReceiverChecksRetry(t *testing.T) {
	t.Parallel()
	receivers := collectortest.StartReceivers(t)
	cfg := must.Get(config.Load(receivers.ConfigFile(t), func(string) string { return "" }))(t)
	var log testnet.Buffer
	c := open(t, func(c *config.Config) { c.Alertmanager = cfg.Alertmanager })
	defer c.Close()
	c.receivers.logger = slog.New(slog.NewTextHandler(&log, nil))
	c.receivers.retry = func() backoff.BackOff { return backoff.NewConstantBackOff(20 * time.Millisecond) }
	receivers.Break("/api/v2/status")
	ended := make(chan error, 1)
	go func() { ended <- c.receivers.run(t.Context()) }()
	<-c.receivers.done
	if err := c.receivers.failed(); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "correct alertmanager.urls") {
		t.Errorf("failed: %v", err)
	}
	receivers.Break("")
	if err := <-ended; err != nil || c.receivers.failed() != nil {
		t.Errorf("%v, %v", err, c.receivers.failed())
	}
	if got := log.String(); strings.Count(got, "alert receiver does not work") != 1 || strings.Count(got, "alert receiver works") != 1 {
		t.Error(got)
	}
}

// Checks that return at once end, however the goroutines are scheduled.
func TestReceiverChecksInstant(t *testing.T) {
	t.Parallel()
	for range 2000 {
		r := Receiver{Kind: "test", Receiver: alerts.Receiver{Check: func(context.Context) (string, error) { return "", nil }}}
		c := &receiverChecks{
			receivers: []Receiver{r, r, r}, failures: make([]error, 3), logger: slog.New(slog.DiscardHandler), done: make(chan struct{}),
			works: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "works", Help: "Whether the receiver works."}, []string{"receiver", "destination"}),
			retry: func() backoff.BackOff { return backoff.NewConstantBackOff(time.Millisecond) },
		}
		must.Do(t, c.run(t.Context()))
		<-c.done
	}
}

package collector

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/secret"
)

// fixedListener is a listener on an address that is not in use.
type fixedListener struct {
	net.Listener
	addr string
}

func (l fixedListener) Addr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", l.addr)
	return addr
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	f := func(want string, notReady error, change func(*Collector)) {
		t.Helper()
		cfg := config.Default()
		cfg.DataDir = "/var/lib/llmtap"
		c := &Collector{
			cfg: cfg, nats: jetstream.Config{URL: "nats://127.0.0.1:4222"}, listener: fixedListener{addr: cfg.Listen},
			proxy:   &proxyRole{listener: fixedListener{addr: "127.0.0.1:8089"}, capture: "shape"},
			receive: &receiveRole{listener: fixedListener{addr: cfg.Receive.Listen}, otlp: otlpReceiver{listener: fixedListener{addr: cfg.Receive.GRPCListen}}},
			ui:      &uiRole{listener: fixedListener{addr: cfg.UI.Listen}},
		}
		c.receive.c, c.receive.otlp.c = c, c
		c.key = shapeKey{"k", "/var/lib/llmtap/shape.key"}
		change(c)
		var out strings.Builder
		c.describe(&out, "/etc/llmtap/llmtap.yaml", notReady)
		must.Agree(t, cmp.Diff(want, out.String()))
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 && !strings.Contains(line, "tls://") {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
	}
	f(`llmtap is up (analyze, alert, proxy, receive, ui)
  Pages       http://127.0.0.1:8090/
  Hooks       export LLMTAP_NATS_URL=nats://127.0.0.1:4222
  Hash key    export LLMTAP_SHAPE_KEY="$(cat '/var/lib/llmtap/shape.key')"
  Proxy       http://127.0.0.1:8089/openai/v1 as base URL (or another provider)
              records bodies without texts (whole: --proxy-capture full)
  Over HTTP   export LLMTAP_ENDPOINT=http://127.0.0.1:4318
  OTLP        export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
              over gRPC: http://127.0.0.1:4317
  ClickHouse  embedded, /var/lib/llmtap/clickhouse
  Commands    llmtap query causes
  Alerts      log only; for Slack: --slack-token-file, --slack-channel
  Health      http://127.0.0.1:8088/readyz
  Metrics     http://127.0.0.1:8088/metrics
  Config      /etc/llmtap/llmtap.yaml; see llmtap config, llmtap doctor
`, nil, func(*Collector) {})
	f(`llmtap is up (analyze, alert, proxy, receive, ui)
  Pages       http://127.0.0.1:8090/
  Hooks       export LLMTAP_NATS_URL=nats://127.0.0.1:4222
  Hash key    export LLMTAP_SHAPE_KEY="$(cat '/var/lib/llmtap/shape.key')"
  Proxy       http://127.0.0.1:8089/openai/v1 as base URL (or another provider)
              records bodies without texts (whole: --proxy-capture full)
  Over HTTP   export LLMTAP_ENDPOINT=http://127.0.0.1:4318
  OTLP        export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
              over gRPC: http://127.0.0.1:4317
  ClickHouse  embedded, /var/lib/llmtap/clickhouse
  Texts       of indexer-*: 10% of the conversations and all that fail, 1GiB an
              hour; of shop: all, 5MiB an hour
  Commands    llmtap query causes
  Alerts      log only; for Slack: --slack-token-file, --slack-channel
  Health      http://127.0.0.1:8088/readyz
  Metrics     http://127.0.0.1:8088/metrics
  Config      /etc/llmtap/llmtap.yaml; see llmtap config, llmtap doctor
`, nil, func(c *Collector) {
		c.cfg.Content.Sampling = []content.Sampling{{Service: "indexer-*", Share: 0.1, PerHour: 1 << 30}, {Service: "shop", Share: 1, PerHour: 5 << 20}}
	})
	f(`llmtap is up (analyze, alert)
  Hooks       export LLMTAP_NATS_URL=nats://TOKEN@127.0.0.1:4222
              TOKEN is the NATS token
  Hash key    export LLMTAP_SHAPE_KEY="$(cat '/var/lib/llmtap/shape.key')"
  ClickHouse  embedded, /var/lib/llmtap/clickhouse
  Commands    llmtap query causes --url http://127.0.0.1:9999
  Alerts      log, alertmanager alertmanager-0.monitoring.internal:9093,
              alertmanager alertmanager-1.monitoring.internal:9093
  Health      http://127.0.0.1:9999/readyz
  Metrics     http://127.0.0.1:9999/metrics
  Config      /etc/llmtap/llmtap.yaml; see llmtap config, llmtap doctor
`, nil, func(c *Collector) {
		c.cfg.Roles, c.proxy, c.receive, c.ui, c.nats.Token = []string{"analyze", "alert"}, nil, nil, nil, "s3cret"
		c.listener = fixedListener{addr: "127.0.0.1:9999"}
		c.cfg.Alertmanager.URLs = []string{"http://alertmanager-0.monitoring.internal:9093", "http://alertmanager-1.monitoring.internal:9093"}
	})
	f(`llmtap is up (analyze)
  Hooks       export LLMTAP_NATS_URL=nats://USER:PASSWORD@a.internal:4222,tls://USER:PASSWORD@b.internal
              USER needs permission to publish to llmtap.v1.>
  ClickHouse  external
  Commands    llmtap query causes --data-dir /var/lib/llmtap
              on other machines: --url http://HOST:9999, LLMTAP_HTTP_TOKEN
  Health      http://127.0.0.1:9999/readyz
  Metrics     http://127.0.0.1:9999/metrics
  Config      /etc/llmtap/llmtap.yaml; see llmtap config, llmtap doctor
  Not ready   NATS: connection refused
              analyze: waiting for NATS
`, errors.New("NATS: connection refused\nanalyze: waiting for NATS"), func(c *Collector) {
		c.cfg.Roles, c.proxy, c.receive, c.ui, c.cfg.ClickHouse.DSN = []string{"analyze"}, nil, nil, nil, "http://ch.internal"
		c.nats.URL, c.listener = "nats://llmtap:p@a.internal:4222, tls://llmtap:p@b.internal", fixedListener{addr: "0.0.0.0:9999"}
		c.guard.tokens, _ = secret.ReadTokens("t0ken", "", "") // no file
		c.key = shapeKey{}
	})
}

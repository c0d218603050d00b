package collector

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var metricFolder = regexp.MustCompile(`^llmtap_(ingest_proxy|ingest_http|analyzer|sinks|alerts)_`)

// A process builds only the roles it runs: the metrics of no other role are registered, and the proxy does not connect to
// ClickHouse.
func TestRoles(t *testing.T) {
	t.Parallel()
	natsURL := newCluster(t, 1).url
	f := func(role string, want ...string) {
		t.Helper()
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		var connections atomic.Int32
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				conn.Close()
			}
		}()
		c := open(t, func(cfg *config.Config) {
			cfg.Roles, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{role}, natsURL, fmt.Sprintf("clickhouse://%s/llmtap", l.Addr())
			cfg.Batcher.DrainTimeout = noStore
		})
		collectortest.Run(t, c)
		folders := map[string]bool{}
		must.Wait(t, role+" has its metrics", func() bool {
			families := described(c.reg)
			c.roleRegs.mu.Lock()
			for _, reg := range c.roleRegs.regs {
				families = append(families, described(reg)...)
			}
			c.roleRegs.mu.Unlock()
			for _, name := range families {
				if m := metricFolder.FindStringSubmatch(name); m != nil {
					folders[m[1]] = true
				}
			}
			if c.analyze != nil {
				folders["analyzer"] = true // its metrics are registered per partition
			}
			return len(folders) >= len(want)
		}, func() any { return folders })
		must.Wait(t, role+" connects to ClickHouse", func() bool { return !slices.Contains(want, "sinks") || connections.Load() > 0 })
		var got []string
		for _, name := range []string{"ingest_proxy", "ingest_http", "analyzer", "sinks", "alerts"} {
			if folders[name] {
				got = append(got, name)
			}
		}
		must.Agree(t, cmp.Diff(want, got), role, "metrics")
		must.Equal(t, connections.Load() > 0, slices.Contains(want, "sinks"), "%s: connections to ClickHouse", role)
	}
	f(config.RoleProxy, "ingest_proxy")
	f(config.RoleReceive, "ingest_http")
	f(config.RoleAnalyze, "analyzer", "sinks")
	f(config.RoleAlert, "sinks", "alerts")
}

// The status of a role that failed has the reason.
func TestRoleFails(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleAlert}, collectortest.StartNATS(t, ""), "http://127.0.0.1:1/llmtap"
		cfg.Batcher.DrainTimeout = noStore
	})
	collectortest.Run(t, c)
	status := func() any { return c.status.of(config.RoleAlert) }
	must.Wait(t, "the role works", func() bool { return c.status.of(partNATS) == nil && status() == nil }, status)
	c.conn.Load().Close()
	must.Wait(t, "the role fails", func() bool { return status() != nil })
	must.Is(t, c.status.of(config.RoleAlert), nats.ErrConnectionClosed, "status")
}

package collector

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var (
	metricName  = regexp.MustCompile(`^llmtap_(ingest|analyzer|sinks|alerts)_[a-z_]+$`)
	runtimeName = regexp.MustCompile(`^(go|process)_`)
	descName    = regexp.MustCompile(`fqName: "([^"]*)"`)
)

// Every metric of a running collector is named after its folder, and promlint accepts those that have a value.
func TestMetrics(t *testing.T) {
	t.Parallel()
	collectortest.NeedClickHouse(t)
	c := start(t, func(*config.Config) {})
	collectortest.RunAgents(t, c.NATSURL(), c.ClickHouse())
	problems := must.Get(testutil.GatherAndLint(c.metrics))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families := must.Get(c.metrics.Gather())(t)
	var served []string
	for _, f := range families {
		served = append(served, f.GetName())
	}
	var silent []string
	for _, name := range slices.Concat(described(c.reg), described(c.analyze.metrics.regs["0"]), described(c.roleRegs.regs[config.RoleAlert])) {
		if !metricName.MatchString(name) && !runtimeName.MatchString(name) {
			t.Errorf("%s: want %s", name, metricName)
		}
		if !slices.Contains(served, name) {
			silent = append(silent, name)
		}
	}
	t.Logf("%d metrics served, without a value so far: %v", len(served), silent)
	for _, folder := range []string{"ingest", "analyzer", "sinks", "sinks_clickhouse", "sinks_chdb", "alerts"} {
		if !slices.ContainsFunc(served, func(name string) bool { return strings.HasPrefix(name, "llmtap_"+folder+"_") }) {
			t.Errorf("no metric of %s", folder)
		}
	}
}

// described returns the names of all registered metrics, with or without a value.
func described(reg *prometheus.Registry) []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	var names []string
	for d := range descs {
		if m := descName.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

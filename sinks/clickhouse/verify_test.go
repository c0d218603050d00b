package clickhouse_test

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// verifyConfig returns a configuration to verify the server of dsn, with some of the stored queries; TestDistributed runs all.
func verifyConfig(t *testing.T, dsn string) clickhouse.VerifyConfig {
	t.Helper()
	cfg := clickhouse.VerifyConfig{Config: clickhouse.Default(), Wait: 20 * time.Second, OtherPort: closedPort(t)}
	cfg.DSN = dsn
	cfg.Started, cfg.Done = func(string) {}, func(clickhouse.VerifyStep) {}
	for _, name := range []string{"causes", "messages_with"} {
		q, err := queries.Get(name)
		must(t, err)
		given := map[string]string{}
		for _, p := range q.Parameters {
			if p.Required {
				given[p.Name] = "x"
			}
		}
		sql, params, err := q.Bind(valuesOf(given), time.Now())
		must(t, err)
		params["prices"] = "[]"
		cfg.Queries = append(cfg.Queries, clickhouse.VerifyQuery{Name: name, SQL: sql, Params: params})
	}
	return cfg
}

// closedPort returns a port of this machine that nothing listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

var times = regexp.MustCompile(`\d+\.\d+ s\b|; the slowest, \w+,|127\.0\.0\.1:\d+|llmtap_test_\d+_\d+|; visible after \S+ s`)

// report returns the results of a verification as lines, without what differs between runs.
func report(v *clickhouse.Verification) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", v.Status)
	for _, s := range v.Steps {
		fmt.Fprintf(&b, "%s  %s  %s\n", s.Status, s.Name, s.Detail)
		if s.Fix != "" {
			fmt.Fprintf(&b, "      fix: %s\n", s.Fix)
		}
	}
	return times.ReplaceAllStringFunc(b.String(), func(s string) string {
		switch {
		case strings.HasPrefix(s, ";"):
			return ""
		case strings.HasPrefix(s, "127"):
			return "ADDRESS"
		case strings.HasPrefix(s, "llmtap"):
			return "llmtap_test"
		}
		return "T s"
	})
}

// All steps succeed on the embedded engine, and the database is dropped.
func TestVerify(t *testing.T) {
	dsn := freshDSN(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	openDSN(t, dsn) // the database has tables
	v, err := clickhouse.Verify(t.Context(), verifyConfig(t, dsn))
	must(t, err)
	golden(t, "verify.txt", report(v))
	s := openDSN(t, dsn)
	if got := query(t, s, "SELECT count() FROM system.databases WHERE name = {name:String}", map[string]string{"name": v.Database}); got != "0\n" {
		t.Errorf("the database %s is left", v.Database)
	}
	// The tables of llmtap are not touched.
	if got := query(t, s, "SELECT sum(total_rows) FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'", nil); got != "0\n" {
		t.Errorf("rows in the database of llmtap: %s", got)
	}
}

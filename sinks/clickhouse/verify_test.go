package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb/chdbtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// verify verifies the server of dsn with some of the stored queries, and returns the results; TestDistributed runs all queries.
func verify(ctx context.Context, t *testing.T, dsn, cluster string, change func(*clickhouse.VerifyConfig)) (steps []clickhouse.VerifyStep, err error) {
	t.Helper()
	cfg := clickhouse.VerifyConfig{Config: clickhouse.Default()}
	cfg.DSN, cfg.Cluster = dsn, cluster
	if change != nil {
		change(&cfg)
	}
	done := cfg.Done
	cfg.Done = func(s clickhouse.VerifyStep) {
		steps = append(steps, s)
		if done != nil {
			done(s)
		}
	}
	for _, name := range []string{"causes", "messages_with"} {
		sql, params, err := queries.Sample(name, time.Now())
		must.Do(t, err)
		cfg.Queries = append(cfg.Queries, clickhouse.VerifyQuery{Name: name, SQL: sql, Params: params})
	}
	err = clickhouse.Verify(ctx, cfg)
	return steps, err
}

var times = regexp.MustCompile(`\d+\.\d+ s\b|; the slowest, \w+,|llmtap_test_\d+_\d+`)

// report returns the results of a verification as lines, without what differs between runs.
func report(steps []clickhouse.VerifyStep) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s  %s  %s\n", s.Status, s.Name, s.Detail)
		if s.Fix != "" {
			fmt.Fprintf(&b, "      fix: %s\n", s.Fix)
		}
	}
	return times.ReplaceAllStringFunc(b.String(), func(s string) string {
		switch {
		case strings.HasPrefix(s, ";"):
			return ""
		case strings.HasPrefix(s, "llmtap"):
			return "llmtap_test"
		}
		return "T s"
	})
}

// All steps succeed on the embedded engine, over the native protocol, and the database is dropped.
func TestVerify(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	s := openDSN(t, dsn) // the database has tables
	u := must.Get(url.Parse(dsn))(t)
	u.Scheme, u.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	golden(t, "verify.txt", report(must.Get(verify(t.Context(), t, u.String(), "", nil))(t)))
	must.Equal(t, query(t, s, "SELECT count() FROM system.databases WHERE name LIKE '%verify'", nil), "0\n", "a database is left")
	// The tables of llmtap are not touched.
	must.Equal(t, query(t, s, "SELECT sum(total_rows) FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'", nil), "0\n", "rows in the database of llmtap")
}

// Each broken set-up is reported with what to do.
func TestVerifyBroken(t *testing.T) {
	dsn := freshDSN(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	f := func(name, dsn, cluster string, change func(*clickhouse.VerifyConfig), want string) {
		t.Helper()
		var got string
		steps := must.Get(verify(t.Context(), t, dsn, cluster, change))(t)
		for _, s := range steps {
			if s.Status == clickhouse.VerifyFailed {
				got += fmt.Sprintf("%s: %s => %s\n", s.Name, s.Detail, s.Fix)
			}
		}
		if !regexp.MustCompile("(?s)^" + want + "$").MatchString(got) {
			t.Errorf("%s: failures\n%swant\n%s", name, got, want)
		}
		must.Equal(t, regexp.MustCompile(`(?m)^ok  database`).MatchString(report(steps)), (steps[len(steps)-1].Name == "drop"), "%s: database in the report", name)
	}
	u := must.Get(url.Parse(dsn))(t)
	wrong := *u
	wrong.User = url.UserPassword("default", "secret")
	const rejected = `connection: connect to 127\S+: code 516: .*Authentication failed.* => correct the user and the password in the DSN, or clickhouse.password_file\n`
	f("wrong password", wrong.String(), "", nil, rejected)
	wrong.Host = "127.0.0.1:1"
	f("no server", wrong.String(), "", nil, `connection: connect to 127\S+: dial tcp \S+ connect: connection refused => start the server, or correct host and port in the DSN; check firewalls\n`)
	wrong.Scheme, wrong.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	f("wrong password over the native protocol", wrong.String(), "", nil, rejected)
	f("unknown cluster", dsn, "main", nil,
		`cluster: cluster main does not exist; this server knows: none => correct --cluster, or define the cluster in remote_servers\n`)
	f("existing database", dsn, "", func(c *clickhouse.VerifyConfig) { c.ScratchDatabase = "default" },
		"database: the database default exists, perhaps since an earlier verification => DROP DATABASE IF EXISTS `default` SYNC, or choose another one with --database\n")
	// An interrupted verification drops its database, too.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps, err := verify(ctx, t, dsn, "", func(c *clickhouse.VerifyConfig) {
		c.Done = func(s clickhouse.VerifyStep) {
			if s.Name == "schema" {
				cancel()
			}
		}
	})
	if last := steps[len(steps)-1]; last.Name != "drop" || last.Status != clickhouse.VerifyOK || err == nil {
		t.Errorf("interrupted: the last step is %v, error %v", last, err)
	}
	must.Equal(t, query(t, openDSN(t, dsn), "SELECT count() FROM system.databases WHERE name LIKE '%verify'", nil), "0\n", "a database is left")
	// Users and servers with other configurations.
	g := func(name string, cfg chdbtest.Config, cluster, want string) {
		t.Helper()
		f(name, chdbtest.DSN(startEngineWith(t, cfg), "llmtap"), cluster, nil, want)
	}
	g("read-only user", chdbtest.Config{Profile: "<readonly>1</readonly>"}, "",
		`connection: connect to \S+ code 164: Cannot modify 'log_comment' setting in readonly mode. \(READONLY\) => set readonly = 0 in the profile of .default.\n`)
	g("constraint", chdbtest.Config{Profile: "<constraints><async_insert><const/></async_insert></constraints>"}, "",
		`write: write, time 1: code 452: Setting async_insert should not be changed. \(SETTING_CONSTRAINT_VIOLATION\) => remove the constraint from the profile of .default.\n`)
	g("missing grants", chdbtest.Config{User: "<grants><query>GRANT SELECT, INSERT ON llmtap.*</query><query>GRANT SELECT, CREATE DATABASE, CREATE TABLE, DROP DATABASE, DROP TABLE ON llmtap_verify.*</query></grants>"}, "",
		"privileges: user `default` lacks CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER TABLE on `llmtap`.\\*; INSERT, ALTER TABLE on `llmtap_verify`.\\* => "+
			"GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER TABLE ON `llmtap`.\\* TO `default`; GRANT INSERT, ALTER TABLE ON `llmtap_verify`.\\* TO `default`\n")
	// The example of a cluster, with addresses of this machine on which nothing listens.
	example := must.Get(os.ReadFile("../../deploy/clickhouse/config/cluster.xml"))(t)
	t.Setenv("CLUSTER_SECRET", "x")
	t.Setenv("SHARD", "1")
	t.Setenv("REPLICA", "2")
	elements := regexp.MustCompile(`</?clickhouse>`).ReplaceAllString(string(example), "")
	elements = regexp.MustCompile(`<host>ch-(\d)-(\d)</host><port>9000`).ReplaceAllString(elements, "<host>127.$1.$2.1</host><port>1")
	elements = strings.Replace(elements, "<host>keeper</host><port>9181", "<host>127.0.0.1</host><port>1", 1)
	g("servers are down", chdbtest.Config{Server: elements}, "main",
		`cluster: read Keeper from all servers: code \d+: .*127\.1\.1\.1:1.* => the servers cannot reach or log in to each other: .*\n`)
	g("no Keeper", chdbtest.Config{Server: oneShard}, "one",
		`cluster: read Keeper from all servers: code 60: Table system.zookeeper does not exist. .* => configure a Keeper on every server: .*\n`)
}

// The grants in deploy/clickhouse suffice. The engine cannot create users by statement, so they are in its configuration.
func TestVerifyGrants(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../deploy/clickhouse/grants.sql"))(t)
	var grants strings.Builder
	for _, stmt := range clickhouse.Statements(string(text)) {
		if _, grant, ok := strings.Cut(stmt, "GRANT ON CLUSTER 'main' "); ok {
			fmt.Fprintf(&grants, "<query>GRANT %s</query>", strings.TrimSuffix(grant, " TO llmtap"))
		}
	}
	addr := simulateCluster(t, startEngineWith(t, chdbtest.Config{User: "<grants>" + grants.String() + "</grants>", Server: pair}))
	golden(t, "verify_cluster.txt", report(must.Get(verify(t.Context(), t, chdbtest.DSN(addr, "llmtap"), "{cluster}", nil))(t)))
}

// pair is a cluster of one shard with two servers, which are the same.
const pair = `<remote_servers><pair><shard><internal_replication>true</internal_replication>
	<replica><host>127.0.0.1</host><port>9000</port></replica><replica><host>localhost</host><port>9000</port></replica></shard></pair></remote_servers>
	<macros><cluster>pair</cluster><shard>1</shard><replica>a</replica></macros>`

// simulateCluster returns the address of a proxy in front of the engine at addr, whose cluster is pair. It removes from
// statements what requires Keeper, ON CLUSTER and replication.
func simulateCluster(t *testing.T, addr string) string {
	t.Helper()
	forward := forwardTo(addr)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("query") { // else the body contains rows
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has closed the connection
			}
			stmt := replicated.ReplaceAllString(strings.ReplaceAll(string(body), " ON CLUSTER '{cluster}'", ""), "ReplacingMergeTree(")
			stmt = strings.Replace(stmt, "clusterAllReplicas('pair', 'system', 'zookeeper') WHERE path", "system.one WHERE '/'", 1)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(stmt)), int64(len(stmt))
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

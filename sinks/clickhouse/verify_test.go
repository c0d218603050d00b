package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
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

// verifyConfig returns a configuration to verify the server of dsn, with some of the stored queries; TestDistributed runs all.
func verifyConfig(t *testing.T, dsn string) clickhouse.VerifyConfig {
	t.Helper()
	cfg := clickhouse.VerifyConfig{Config: clickhouse.Default(), Wait: 2 * time.Minute}
	cfg.DSN = dsn
	cfg.Started, cfg.Done = func(string) {}, func(clickhouse.VerifyStep) {}
	for _, name := range []string{"causes", "messages_with"} {
		sql, params, err := queries.Sample(name, time.Now())
		must.Do(t, err)
		cfg.Queries = append(cfg.Queries, clickhouse.VerifyQuery{Name: name, SQL: sql, Params: params})
	}
	return cfg
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

// All steps succeed on the embedded engine, over the native protocol, and the database is dropped.
func TestVerify(t *testing.T) {
	dsn := freshDSN(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	openDSN(t, dsn) // the database has tables
	u := must.Get(url.Parse(dsn))(t)
	u.Scheme, u.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	cfg := verifyConfig(t, u.String())
	v := must.Get(clickhouse.Verify(t.Context(), cfg))(t)
	golden(t, "verify.txt", report(v))
	s := openDSN(t, dsn)
	must.Equal(t, query(t, s, "SELECT count() FROM system.databases WHERE name = {name:String}", map[string]string{"name": v.Database}), "0\n", "the database %s is left", v.Database)
	// The tables of llmtap are not touched.
	must.Equal(t, query(t, s, "SELECT sum(total_rows) FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'", nil), "0\n", "rows in the database of llmtap")
}

// failures returns the steps of a verification that failed, with their fixes.
func failures(v *clickhouse.Verification) string {
	var b strings.Builder
	for _, s := range v.Steps {
		if s.Status == clickhouse.VerifyFailed {
			fmt.Fprintf(&b, "%s: %s => %s\n", s.Name, s.Detail, s.Fix)
		}
	}
	return b.String()
}

// Each broken set-up is reported with what to do.
func TestVerifyBroken(t *testing.T) {
	dsn := freshDSN(t)
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	// f verifies up to the given step.
	f := func(name, dsn, last string, change func(*clickhouse.VerifyConfig), want string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := verifyConfig(t, dsn)
		cfg.Done = func(s clickhouse.VerifyStep) {
			if s.Name == last {
				cancel()
			}
		}
		if change != nil {
			change(&cfg)
		}
		v := must.Get(clickhouse.Verify(ctx, cfg))(t)
		if got := failures(v); !regexp.MustCompile("(?s)^"+want+"$").MatchString(got) || v.Status != clickhouse.VerifyFailed {
			t.Errorf("%s: status %s, failures\n%swant\n%s", name, v.Status, got, want)
		}
		if s := v.Steps[len(v.Steps)-1]; s.Name != "drop" || s.Status == clickhouse.VerifyFailed {
			t.Errorf("%s: the last step is %v", name, s)
		}
	}
	u := must.Get(url.Parse(dsn))(t)
	wrong := *u
	wrong.User = url.UserPassword("default", "secret")
	f("wrong password", wrong.String(), "", nil, `connection: connect to 127\S+: code 516: .*Authentication failed.* => correct the user and the password in the DSN, or clickhouse.password_file\n`)
	wrong.Host = "127.0.0.1:1"
	f("no server", wrong.String(), "", nil, `connection: connect to 127\S+: dial tcp \S+ connect: connection refused => start the server, or correct host and port in the DSN; check firewalls\n`)
	wrong.Scheme, wrong.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	f("wrong password over the native protocol", wrong.String(), "", nil, `connection: connect to 127\S+: code 516: .*Authentication failed.* => correct the user and the password in the DSN, or clickhouse.password_file\n`)
	f("unknown cluster", dsn, "", func(c *clickhouse.VerifyConfig) { c.Cluster = "main" },
		`privileges: user default lacks REMOTE on \*\.\* => GRANT REMOTE ON \*\.\* TO default\n`+
			`cluster: cluster main does not exist; this server knows: none => correct --cluster, or define the cluster in remote_servers\n`)
	f("existing database", dsn, "", func(c *clickhouse.VerifyConfig) { c.ScratchDatabase = "default" },
		"database: the database default exists, perhaps since an earlier verification => DROP DATABASE IF EXISTS `default` SYNC, or choose another one with --database\n")

	// A table of llmtap was created by hand, with a wrong engine.
	s := openDSN(t, dsn)
	must.Do(t, s.Exec(t.Context(), "DROP TABLE exchanges"))
	must.Do(t, s.Exec(t.Context(), "CREATE TABLE exchanges (exchange_id String, seq UInt32) ENGINE = MergeTree ORDER BY exchange_id"))
	f("changed table", dsn, "existing tables", func(c *clickhouse.VerifyConfig) { c.ScratchDatabase = "llmtap_scratch" },
		`existing tables: \w+ differs: exchanges: ORDER BY is exchange_id, not toStartOfHour\(started_at\), service, exchange_id, exchanges: PARTITION BY is missing, not toYYYYMM\(started_at\), exchanges: agent is missing, not LowCardinality\(String\), and \d+ more => undo the change, .*\n`)

	// An interrupted verification drops its database, too.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := verifyConfig(t, dsn)
	cfg.Done = func(s clickhouse.VerifyStep) {
		if s.Name == "schema" {
			cancel()
		}
	}
	v := must.Get(clickhouse.Verify(ctx, cfg))(t)
	if last := v.Steps[len(v.Steps)-1]; last.Name != "drop" || last.Status != clickhouse.VerifyOK {
		t.Errorf("interrupted: the last step is %v", last)
	}
	must.Equal(t, query(t, s, "SELECT count() FROM system.databases WHERE name LIKE '%verify' OR name = 'llmtap_scratch'", nil), "0\n", "a database is left")

	// Users and servers with other configurations.
	g := func(name string, cfg chdbtest.Config, cluster, last, want string) {
		t.Helper()
		f(name, chdbtest.DSN(startEngineWith(t, cfg), "llmtap"), last, func(c *clickhouse.VerifyConfig) { c.Cluster = cluster }, want)
	}
	g("read-only user", chdbtest.Config{Profile: "<readonly>1</readonly>"}, "", "",
		`connection: connect to \S+ code 164: Cannot modify 'log_comment' setting in readonly mode. \(READONLY\) => set readonly = 0 in the profile of default\n`)
	g("constraint", chdbtest.Config{Profile: "<constraints><async_insert><const/></async_insert></constraints>"}, "", "write",
		`write: write, time 1: code 452: Setting async_insert should not be changed. \(SETTING_CONSTRAINT_VIOLATION\) => remove the constraint from the profile of default\n`)
	g("missing grants", chdbtest.Config{User: "<grants><query>GRANT SELECT, INSERT ON llmtap.*</query><query>GRANT SELECT, CREATE DATABASE, CREATE TABLE, DROP DATABASE, DROP TABLE ON llmtap_verify.*</query></grants>"}, "", "",
		"privileges: user default lacks CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER TABLE on `llmtap`.\\*; INSERT, ALTER TABLE on `llmtap_verify`.\\* => "+
			"GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER TABLE ON `llmtap`.\\* TO default; GRANT INSERT, ALTER TABLE ON `llmtap_verify`.\\* TO default\n"+
			`schema: create the tables: code 497: .* necessary to have the grant INSERT\(number, name, checksum, applied_at\) ON llmtap_verify.migrations. \(ACCESS_DENIED\) => GRANT INSERT\(number, name, checksum, applied_at\) ON llmtap_verify.migrations TO default\n`)
	g("no right to drop", chdbtest.Config{User: "<grants><query>GRANT SELECT ON *.*</query><query>GRANT CREATE DATABASE ON llmtap_verify.*</query></grants>"}, "", "",
		"privileges: .*\ndatabase: user default may not drop the database llmtap_verify again => GRANT DROP DATABASE, DROP TABLE ON `llmtap_verify`.\\* TO default\n")
	// The example of a cluster, with addresses of this machine on which nothing listens.
	example := must.Get(os.ReadFile("../../deploy/clickhouse/config/cluster.xml"))(t)
	t.Setenv("CLUSTER_SECRET", "x")
	t.Setenv("SHARD", "1")
	t.Setenv("REPLICA", "2")
	elements := regexp.MustCompile(`</?clickhouse>`).ReplaceAllString(string(example), "")
	elements = regexp.MustCompile(`<host>ch-(\d)-(\d)</host><port>9000`).ReplaceAllString(elements, "<host>127.$1.$2.1</host><port>1")
	elements = strings.Replace(elements, "<host>keeper</host><port>9181", "<host>127.0.0.1</host><port>1", 1)
	g("servers are down", chdbtest.Config{Server: elements}, "main", "",
		`cluster: read the macros of all servers: code \d+: .*127\.1\.1\.1:1.* => the servers cannot reach or log in to each other: .*\n`)
	g("no macros", chdbtest.Config{Server: oneShard}, "one", "",
		`cluster: 127.0.0.1:9000 has no macro shard or replica => define the macros shard, .*\n`)
	g("no Keeper", chdbtest.Config{Server: oneShard + "<macros><shard>1</shard><replica>a</replica></macros>"}, "one", "",
		`cluster: read Keeper from all servers: code 60: Table system.zookeeper does not exist. .* => configure a Keeper on every server: .*\n`)
}

// The grants in deploy/clickhouse suffice. The engine cannot create users by statement, so they are in its configuration.
func TestVerifyGrants(t *testing.T) {
	text := must.Get(os.ReadFile("../../deploy/clickhouse/grants.sql"))(t)
	var grants strings.Builder
	for _, stmt := range clickhouse.Statements(string(text)) {
		if _, grant, ok := strings.Cut(stmt, "GRANT ON CLUSTER 'main' "); ok {
			fmt.Fprintf(&grants, "<query>GRANT %s</query>", strings.TrimSuffix(grant, " TO llmtap"))
		}
	}
	addr := simulateCluster(t, startEngineWith(t, chdbtest.Config{User: "<grants>" + grants.String() + "</grants>", Server: pair}))
	cfg := verifyConfig(t, chdbtest.DSN(addr, "llmtap"))
	cfg.Cluster = "{cluster}"
	v := must.Get(clickhouse.Verify(t.Context(), cfg))(t)
	golden(t, "verify_cluster.txt", report(v))
}

// pair is a cluster of one shard with two servers, which are the same.
const pair = `<remote_servers><pair><shard><internal_replication>true</internal_replication>
	<replica><host>127.0.0.1</host><port>9000</port></replica><replica><host>localhost</host><port>9000</port></replica></shard></pair></remote_servers>
	<macros><cluster>pair</cluster><shard>1</shard><replica>a</replica></macros>`

// simulateCluster returns the address of a proxy in front of the engine at addr, whose cluster is pair. It removes from
// statements what requires Keeper, ON CLUSTER and replication, and makes the macros of the servers different.
func simulateCluster(t *testing.T, addr string) string {
	t.Helper()
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	forward.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("query") { // else the body contains rows
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has closed the connection
			}
			stmt := replicated.ReplaceAllString(strings.ReplaceAll(string(body), " ON CLUSTER '{cluster}'", ""), "ReplacingMergeTree(")
			stmt = strings.Replace(stmt, "clusterAllReplicas('pair', 'system', 'zookeeper') WHERE path", "system.one WHERE '/'", 1)
			stmt = strings.Replace(stmt, "substitution FROM clusterAllReplicas", "if(macro = 'replica', toString(_shard_num), substitution) AS substitution FROM clusterAllReplicas", 1)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(stmt)), int64(len(stmt))
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

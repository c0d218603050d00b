package clickhouse_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	chdbengine "github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/chdb/httpd"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// shardsEnv makes the test binary a ClickHouse with a cluster that consists of itself; its value is the data directory. There
// is no Keeper and no network, so Distributed tables are tested, but ON CLUSTER and replication are not.
const shardsEnv = "LLMTAP_TEST_SHARDS"

const shardsConfig = `<clickhouse>
  <timezone>UTC</timezone>
  <tcp_port>9000</tcp_port>
  <users_config>%s</users_config>
  <remote_servers><one><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></one></remote_servers>
</clickhouse>`

const shardsUsers = `<clickhouse>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
</clickhouse>`

// runShards is the main function of the child. It returns immediately in other processes.
func runShards() {
	dir := os.Getenv(shardsEnv)
	if dir == "" {
		return
	}
	if err := serveShards(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveShards(dir string) error {
	library, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: ""})
	if err != nil {
		return err
	}
	lib, err := chdbengine.Load(library)
	if err != nil {
		return err
	}
	users, config, path := filepath.Join(dir, "users.xml"), filepath.Join(dir, "config.xml"), "--path="+filepath.Join(dir, "data")
	if err := errors.Join(os.WriteFile(users, []byte(shardsUsers), 0o600), os.WriteFile(config, fmt.Appendf(nil, shardsConfig, users), 0o600)); err != nil {
		return err
	}
	base, err := lib.Connect(path, "--config-file="+config)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := httpd.New(httpd.Config{
		Password: "shards", MaxConcurrentQueries: 8, Server: httpd.Server{Version: chdbengine.Version, DisplayName: "shards", Timezone: "UTC"},
		Connect: func() (*chdbengine.Conn, error) { return lib.Connect(path) },
		Observe: func(httpd.Query) {},
	})
	hs := &http.Server{Handler: h}
	go func() { _ = hs.Serve(ln) }()
	fmt.Println(ln.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = hs.Close()
	h.Close()
	base.Close()
	return nil
}

// startShards starts a ClickHouse with the cluster "one" and returns its address.
func startShards(t *testing.T) string {
	t.Helper()
	freshDSN(t) // skips the test if there is no library
	if engine.server == nil {
		t.Skip("not the embedded server")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), shardsEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("shards: %v", err)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start shards: %v", err)
	}
	return strings.TrimSpace(addr)
}

var replicated = regexp.MustCompile(`ReplicatedReplacingMergeTree\('[^']*', '[^']*'(, )?`)

// A Distributed table accepts rows, shows the newest version of each through its view, has the same columns as the local table,
// and works with every query.
func TestDistributed(t *testing.T) {
	addr := startShards(t)
	script, err := clickhouse.Script("one", "llmtap")
	must(t, err)
	script = strings.ReplaceAll(script, " ON CLUSTER 'one'", "")
	script = replicated.ReplaceAllString(script, "ReplacingMergeTree(")
	must(t, clickhouse.ExecAll(t.Context(), "http://default:shards@"+addr+"/default", clickhouse.Statements(script)))
	s := openDSN(t, "http://default:shards@"+addr+"/llmtap")
	const n = 200
	for _, b := range []*sinks.Batch{sinktest.Rows(0, n), sinktest.Later(sinktest.Rows(0, n)), sinktest.Rows(0, n)} {
		must(t, s.Write(t.Context(), b))
	}
	counts, err := s.Counts(t.Context())
	must(t, err)
	for table := range clickhouse.ColumnNames() {
		// The rows are on the shards when Write returns.
		if got := query(t, s, "SELECT count() FROM "+table+"_local FINAL", nil); got != fmt.Sprintln(counts[table]) || counts[table] == 0 {
			t.Errorf("%s_final: %d rows, locally %s", table, counts[table], got)
		}
		columns := "SELECT arraySort(groupArray(name)) FROM system.columns WHERE database = 'llmtap' AND table = {table:String}"
		want := query(t, s, columns, map[string]string{"table": table + "_local"})
		for _, name := range []string{table, table + "_final"} {
			if got := query(t, s, columns, map[string]string{"table": name}); got != want {
				t.Errorf("%s has columns %s, want %s", name, got, want)
			}
		}
	}
	if got := query(t, s, "SELECT count(), countIf(status = 200 AND stage = 'executor') FROM exchanges_final", nil); got != "200\t200\n" {
		t.Errorf("exchanges_final: rows, newest rows = %q", got)
	}
	for _, name := range queries.Names() {
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
		if _, err := s.Query(t.Context(), sql, params); err != nil {
			t.Errorf("query %s: %v", name, err)
		}
	}
	st, err := clickhouse.Inspect(t.Context(), clickhouse.Config{DSN: "http://default:shards@" + addr + "/llmtap"})
	must(t, err)
	if st.Cluster != "one" || len(st.In(clickhouse.Pending)) > 0 {
		t.Errorf("Inspect: %+v", st)
	}
	for cluster, want := range map[string]string{"one": "", "{cluster}": "", "three": "database llmtap is on cluster one, not three: correct clickhouse.cluster, or use an empty database"} {
		o, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: "http://default:shards@" + addr + "/llmtap", Cluster: cluster}, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			o.Close()
		}
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("Open with cluster %s: %v, want %q", cluster, err, want)
		}
	}
}

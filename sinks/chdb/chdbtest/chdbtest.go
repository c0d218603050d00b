// Package chdbtest runs the embedded ClickHouse with other configurations than that of llmtap: with clusters, users and
// profiles. There is no Keeper and no port for other servers, so all shards of a cluster are databases of the same engine.
package chdbtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// Config is a configuration of ClickHouse.
type Config struct {
	Server  string // elements of config.xml, such as <remote_servers>
	Profile string // elements of the profile of the user, such as <readonly>
	User    string // elements of the user, such as <grants>
}

// Password is the password of the user default.
const Password = "chdbtest"

// Environment of the child.
const (
	dirEnv     = "LLMTAP_TEST_CHDB_DIR"
	serverEnv  = "LLMTAP_TEST_CHDB_SERVER"
	profileEnv = "LLMTAP_TEST_CHDB_PROFILE"
	userEnv    = "LLMTAP_TEST_CHDB_USER"
)

const configXML = `<clickhouse>
  <timezone>UTC</timezone>
  <tcp_port>9000</tcp_port>
  <users_config>%s</users_config>
  %s
</clickhouse>`

const usersXML = `<clickhouse>
  <profiles><default>%s</default></profiles><quotas><default/></quotas>
  <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>%s</default></users>
</clickhouse>`

// RunChild is the main function of the child that Start starts. In other processes it returns immediately. TestMain must call
// it first.
func RunChild() {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return
	}
	if err := serve(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(dir string) error {
	library, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: ""})
	if err != nil {
		return err
	}
	lib, err := engine.Load(library)
	if err != nil {
		return err
	}
	users, config, path := filepath.Join(dir, "users.xml"), filepath.Join(dir, "config.xml"), "--path="+filepath.Join(dir, "data")
	if err := errors.Join(
		os.WriteFile(users, fmt.Appendf(nil, usersXML, os.Getenv(profileEnv), os.Getenv(userEnv)), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, configXML, users, os.Getenv(serverEnv)), 0o600),
	); err != nil {
		return err
	}
	base, err := lib.Connect(path, "--config-file="+config)
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := httpd.New(httpd.Config{
		Password: Password, MaxConcurrentQueries: 8, Server: httpd.Server{Version: engine.Version, DisplayName: "chdbtest", Timezone: "UTC"},
		Connect: func() (*engine.Conn, error) { return lib.Connect(path) },
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

// Start starts a ClickHouse in a child process and returns its address. It stops when the test ends. The library must be
// present.
func Start(t *testing.T, cfg Config) (addr string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) // it ends with its standard input
	cmd.Env = append(os.Environ(), dirEnv+"="+t.TempDir(), serverEnv+"="+cfg.Server, profileEnv+"="+cfg.Profile, userEnv+"="+cfg.User)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.Do(t, err)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		must.Do(t, cmd.Wait(), "stop ClickHouse")
	})
	addr, err = bufio.NewReader(out).ReadString('\n')
	must.Do(t, err, "start ClickHouse")
	return strings.TrimSpace(addr)
}

// DSN returns the DSN of a database of the server at addr.
func DSN(addr, database string) string {
	return "http://default:" + Password + "@" + addr + "/" + database
}

package chdb

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// standInEnv is the library with which this binary stands in for the program clickhouse. The real one was not to be had for the tests.
const standInEnv = "LLMTAP_TEST_CLICKHOUSE_LIBRARY"

// standIn serves what "clickhouse server --config-file=FILE" does: the HTTP interface on the port of the file, with its users, until
// SIGTERM.
func standIn(library string) error {
	file, ok := strings.CutPrefix(os.Args[2], "--config-file=")
	if os.Args[1] != "server" || !ok || os.Getenv("CLICKHOUSE_WATCHDOG_ENABLE") != "0" {
		return fmt.Errorf("unexpected arguments or environment: %q", os.Args)
	}
	var cfg struct {
		Host  string `xml:"listen_host"`
		Port  int    `xml:"http_port"`
		Path  string `xml:"path"`
		Users string `xml:"users_config"`
	}
	type user struct {
		Hash string `xml:"password_sha256_hex"`
	}
	var users struct {
		Default user `xml:"users>default"`
		Reader  user `xml:"users>reader"`
	}
	for path, v := range map[string]any{file: &cfg, "": &users} {
		if path == "" {
			path = filepath.Join(filepath.Dir(file), "users.xml")
		}
		b, err := os.ReadFile(path)
		if err := errors.Join(err, xml.Unmarshal(b, v)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.MkdirAll(cfg.Path, 0o700), os.Chdir(cfg.Path)); err != nil { // the library reads a config.xml in its working directory
		return err
	}
	lib, err := engine.Load(library)
	if err != nil {
		return err
	}
	base, err := lib.Connect("--path=" + cfg.Path)
	if err != nil {
		return err
	}
	h := httpd.New(httpd.Config{
		Password: "known", ReaderPassword: "known", MaxConcurrentQueries: 8, Server: httpd.Server{Version: engine.Version, Timezone: "UTC"},
		Connect: func() (*engine.Conn, error) { return lib.Connect("--path=" + cfg.Path) }, Observe: func(httpd.Query) {},
	})
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if key := r.Header.Get("X-ClickHouse-Key"); key != "" {
			name, password = r.Header.Get("X-ClickHouse-User"), key
			r.Header.Del("X-ClickHouse-User")
			r.Header.Del("X-ClickHouse-Key")
		}
		want := map[string]string{httpd.User: users.Default.Hash, httpd.Reader: users.Reader.Hash}[name]
		if passwordHash(password) == want {
			password = "known"
		}
		r.SetBasicAuth(name, password)
		h.ServeHTTP(w, r)
	})}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		_ = srv.Close()
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	h.Close()
	base.Close()
	return nil
}

// onlyProgram leaves the stand-in as the only ClickHouse of this machine.
func onlyProgram(t *testing.T) {
	needLibrary(t)
	library := must.Get(FindLibrary(t.Context(), LibraryConfig{}))(t)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", standInEnv, library, must.Get(os.Executable())(t))
	must.Do(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+t.TempDir())
	t.Setenv("HOME", t.TempDir()) // no cache
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(libraryEnv, "")
}

// Without a library, the program clickhouse is the child: it is started, restarted at the same address after it was killed, and stopped.
func TestProgram(t *testing.T) {
	onlyProgram(t)
	cfg := Default()
	cfg.Dir, cfg.Logger = filepath.Join(t.TempDir(), "db & <more>"), testLogger()
	s := must.Get(Start(t.Context(), cfg))(t)
	c := open(t, s)
	mustExec(t, c, "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
	mustExec(t, c, "INSERT INTO t VALUES (1), (2)")
	rows := func() (n uint64) {
		t.Helper()
		must.Do(t, c.QueryRow(t.Context(), "SELECT count() FROM t").Scan(&n))
		return n
	}
	must.Equal(t, rows(), 2, "rows")
	pid := func() int { // ClickHouse writes it
		b, _ := os.ReadFile(filepath.Join(s.config.Dir, "data", "status"))
		line, _, _ := strings.Cut(strings.TrimPrefix(string(b), "PID: "), "\n")
		n, _ := strconv.Atoi(line)
		return n
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		old := pid()
		must.Do(t, syscall.Kill(old, sig))
		must.Wait(t, "it is restarted", func() bool { return s.Health() == nil && pid() != 0 && pid() != old })
		must.Equal(t, rows(), 2, "rows after a restart")
	}
	reader := must.Get(url.Parse(strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(s.config.Dir, "reader.dsn")))(t)))))(t)
	password, _ := reader.User.Password()
	asReader := func(r *http.Request) {
		r.Header.Del("X-ClickHouse-Key")
		r.SetBasicAuth(httpd.Reader, password)
	}
	resp, body := do(t, s, nil, strings.NewReader("SELECT count() FROM llmtap.t"), asReader)
	must.Equal(t, body, "2\n", "rows (status %d)", resp.StatusCode)
	last := pid()
	must.Do(t, s.Close(context.Background()))
	must.Is(t, syscall.Kill(last, 0), syscall.ESRCH)
}

// What does not start is passed over, and the error names the reason for each.
func TestSeveralClickHouses(t *testing.T) {
	onlyProgram(t)
	old := places
	defer func() { places = old }()
	places = []string{filepath.Join(t.TempDir(), "libchdb.so")}
	must.Do(t, os.WriteFile(places[0], []byte("not a library"), 0o600))
	cfg := Default()
	cfg.Dir = t.TempDir()
	s := must.Get(Start(t.Context(), cfg))(t)
	must.Equal(t, isLibrary(s.config.Library), false, "library")
	must.Do(t, s.Close(context.Background()))

	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho too old >&2\nexit 1\n"), 0o755))
	t.Setenv("PATH", dir)
	err := must.Err(Start(t.Context(), cfg))
	for _, want := range []string{"load libchdb", "too old", places[0]} {
		must.Fail(t, err, want)
	}
}

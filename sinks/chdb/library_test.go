package chdb

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fakeNPM adds an npm to the PATH that packs a small tarball and counts its runs.
func fakeNPM(t *testing.T) (pkg npmPackage, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	var tgz bytes.Buffer
	z := gzip.NewWriter(&tgz)
	tw := tar.NewWriter(z)
	for _, f := range [][2]string{{"package/package.json", "{}"}, {"package/libchdb.so", "the library"}} {
		must.Do(t, tw.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1])), Mode: 0o644}))
		must.Get(tw.Write([]byte(f[1])))(t)
	}
	tw.Close()
	z.Close()
	write := func(name, content string, mode os.FileMode) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
	}
	write("lib.tgz", tgz.String(), 0o644)
	// $5 is the destination: pack --silent --ignore-scripts --pack-destination DIR spec
	write("npm", "#!/bin/sh\necho run >> "+dir+"/runs\ncp "+dir+"/lib.tgz \"$5/lib-$$.tgz\"\n", 0o755)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	sum := sha512.Sum512(tgz.Bytes())
	return npmPackage{"@chdb/lib-test", "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}, func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "runs"))
		return bytes.Count(b, []byte("\n"))
	}
}

// Concurrent installations install once. The directory then contains the library, its marker and the lock.
func TestInstall(t *testing.T) {
	pkg, runs := fakeNPM(t)
	dir := filepath.Join(t.TempDir(), "lib")
	if err := os.MkdirAll(filepath.Join(dir, "install-killed"), 0o755); err != nil { // left by a killed installation
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := install(t.Context(), dir, pkg, func(string) {})
			if b, _ := os.ReadFile(path); err != nil || string(b) != "the library" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	wg.Wait()
	must.Equal(t, runs(), 1, "runs of npm")
	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	must.Equal(t, strings.Join(names, " "), "libchdb.so libchdb.so.verified lock", "files")
	// A library that does not match its marker is installed again.
	must.Do(t, os.WriteFile(filepath.Join(dir, "libchdb.so"), []byte("cut"), 0o644))
	if _, err := install(t.Context(), dir, pkg, func(string) {}); err != nil || runs() != 2 {
		t.Errorf("%d runs, %v", runs(), err)
	}
}

func TestInstallErrors(t *testing.T) {
	pkg, _ := fakeNPM(t)
	f := func(want string, ctx context.Context, pkg npmPackage) {
		t.Helper()
		dir := t.TempDir()
		must.Fail(t, must.Err(install(ctx, dir, pkg, func(string) {})), want)
		if _, ok := cached(dir, pkg); ok {
			t.Error("a library was installed")
		}
	}
	f("checksum", t.Context(), npmPackage{pkg.name, "sha512-AAAA"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f("canceled", ended, pkg)
	t.Setenv("PATH", t.TempDir())
	f("npm is not installed", t.Context(), pkg)
}

func TestFindLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libchdb.so")
	t.Setenv(libraryEnv, file)
	must.Fail(t, must.Err(FindLibrary(t.Context(), LibraryConfig{})), libraryEnv)
	must.Do(t, os.WriteFile(file, []byte("not a library"), 0o644))
	must.Equal(t, must.Get(FindLibrary(t.Context(), LibraryConfig{}))(t), file, "library")
	// Loading it fails in the child; the caller gets the error.
	cfg := Default()
	cfg.Dir = t.TempDir()
	must.Fail(t, must.Err(Start(t.Context(), cfg)), "load libchdb")
	// Without npm the error lists the solutions.
	t.Setenv(libraryEnv, "")
	t.Setenv("PATH", t.TempDir())
	_, err := FindLibrary(t.Context(), LibraryConfig{CacheDir: t.TempDir()})
	for _, way := range []string{"npm", libraryEnv, "clickhouse.dsn", "LLMTAP_CLICKHOUSE_DSN"} {
		must.Fail(t, err, way)
	}
}

func TestValidate(t *testing.T) {
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := Default()
		c.Dir = "x"
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("", func(*Config) {})
	f("dir: ", func(c *Config) { c.Dir = "" })
	f("memory_limit: ", func(c *Config) { c.MemoryLimit = 1000 })
	f("max_concurrent_queries: ", func(c *Config) { c.MaxConcurrentQueries = 0 })
}

// PresentLibrary installs nothing: it reports whether FindLibrary must install the library, and can.
func TestPresentLibrary(t *testing.T) {
	t.Setenv(libraryEnv, "")
	_, runs := fakeNPM(t)
	cfg := LibraryConfig{CacheDir: t.TempDir()}
	_, known := npmPackages[runtime.GOOS+"/"+runtime.GOARCH]
	if path, err := PresentLibrary(cfg); path != "" || (err == nil) != known || runs() != 0 {
		t.Errorf("with npm: %q, %v, npm ran %d times", path, err, runs())
	}
	t.Setenv("PATH", t.TempDir())
	must.Fail(t, must.Err(PresentLibrary(cfg)), "or set "+libraryEnv, "without npm")
	file := filepath.Join(t.TempDir(), "libchdb.so")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	t.Setenv(libraryEnv, file)
	if path, err := PresentLibrary(cfg); path != file || err != nil {
		t.Errorf("with a file: %q, %v", path, err)
	}
	t.Setenv(libraryEnv, file+"-not")
	must.Fail(t, must.Err(PresentLibrary(cfg)), "which is not a file", "with a missing file")
}

package chdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// libraryVersion is the required version of libchdb.
const libraryVersion = "26.7.3-stable.1"

// libraryEnv is the environment variable for the path of a library that is used instead of the cached one.
const libraryEnv = "LLMTAP_LIBCHDB"

// An npmPackage contains the library for one platform. integrity is npm's checksum of the package's tarball.
type npmPackage struct{ name, integrity string }

// npmPackages maps GOOS/GOARCH to a package. On other platforms, whose checksums are not known, llmtap uses a ClickHouse that is
// there.
var npmPackages = map[string]npmPackage{
	"linux/amd64": {"@chdb/lib-linux-x64-gnu", "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw=="},
}

// LibraryConfig configures where the library is stored.
type LibraryConfig struct {
	CacheDir string            // if empty, the directory llmtap in the user's cache directory
	Progress func(line string) // receives progress messages of an installation; may be nil
}

// places are where chDB's installer and Homebrew put the library: update_libchdb.sh of chdb-io/chdb and binding.go of
// chdb-io/chdb-go v1.11.0, as of September 2026. The name is libchdb.so on macOS, too.
var places = []string{"/usr/local/lib/libchdb.so", "/opt/homebrew/lib/libchdb.dylib"}

// program is the name of ClickHouse's own program, which runs as a server where there is no library.
const program = "clickhouse"

// ErrNone means that this machine has no ClickHouse that could be embedded, and llmtap knows none to install.
var ErrNone = errors.New("there is no ClickHouse on this machine")

// HowToAdd is the command that adds a ClickHouse, for a sentence.
const HowToAdd = "curl -sL https://lib.chdb.io | bash"

// FindLibrary returns the path of the ClickHouse to use, the first of presentLibraries. If there is none, FindLibrary installs the
// library with the npm client (178 MB), or returns ErrNone. If several processes call it concurrently, only one installs the
// library.
func FindLibrary(ctx context.Context, cfg LibraryConfig) (string, error) {
	found, err := findLibraries(ctx, cfg)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

func findLibraries(ctx context.Context, cfg LibraryConfig) ([]string, error) {
	found, err := presentLibraries(cfg)
	if len(found) > 0 || err != nil {
		return found, err
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	dir, err := cfg.dir()
	if err != nil {
		return nil, noLibrary(err)
	}
	path, err := install(ctx, dir, npmPackages[runtime.GOOS+"/"+runtime.GOARCH], cfg.Progress)
	if err != nil {
		return nil, noLibrary(err)
	}
	return []string{path}, nil
}

// presentLibraries returns the paths of each ClickHouse of this machine that can be embedded, the preferred one first: the file in
// LLMTAP_LIBCHDB and nothing else, or the library in the cache; where npm cannot install that, the library where its own installer
// puts it, and the program clickhouse. If there is none, it returns an error, unless the npm client can install the library.
func presentLibraries(cfg LibraryConfig) ([]string, error) {
	if path := os.Getenv(libraryEnv); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find libchdb: %w", err)
		}
		if !isFile(path) {
			return nil, fmt.Errorf("find libchdb: %s is %s, which is not a file", libraryEnv, path)
		}
		return []string{path}, nil
	}
	dir, err := cfg.dir()
	if err != nil {
		return nil, noLibrary(err)
	}
	pkg, known := npmPackages[runtime.GOOS+"/"+runtime.GOARCH]
	if path, ok := cached(dir, pkg); ok {
		return []string{path}, nil
	}
	err = fmt.Errorf("no package is known for %s/%s", runtime.GOOS, runtime.GOARCH)
	if known {
		if _, err := exec.LookPath("npm"); err == nil {
			return nil, nil
		}
		err = errNoNPM
	}
	var found []string
	for _, path := range places {
		if isFile(path) {
			found = append(found, path)
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, noLibrary(fmt.Errorf("%w: %w", ErrNone, err))
	}
	return found, nil
}

// PresentLibrary is like FindLibrary, but does not install the library. It returns "" if the npm client can install it.
func PresentLibrary(cfg LibraryConfig) (string, error) {
	found, err := presentLibraries(cfg)
	if len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

// isLibrary reports whether path is a library, and not the program clickhouse.
func isLibrary(path string) bool {
	name := filepath.Base(path)
	return strings.Contains(name, ".so") || strings.HasSuffix(name, ".dylib")
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// dir returns the directory for libraryVersion in the cache.
func (c LibraryConfig) dir() (string, error) {
	if c.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		c.CacheDir = filepath.Join(user, "llmtap")
	}
	return filepath.Join(c.CacheDir, "libchdb-"+libraryVersion), nil
}

// noLibrary returns err with the possible solutions.
func noLibrary(err error) error {
	return fmt.Errorf("get libchdb %s, the embedded ClickHouse: %w; run %s, or install npm (Node.js) on linux/amd64, or put the program clickhouse "+
		"on the PATH, or set %s to a libchdb.so, or use a ClickHouse server: clickhouse.dsn or LLMTAP_CLICKHOUSE_DSN", libraryVersion, err, HowToAdd, libraryEnv)
}

// cached returns the path of the library in dir if its marker is valid. The marker contains the checksum of the tarball
// and the size of the library. It is written only after the checksum has been verified.
func cached(dir string, pkg npmPackage) (string, bool) {
	path := filepath.Join(dir, "libchdb.so")
	st, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	b, err := os.ReadFile(path + ".verified")
	if err != nil || string(b) != marker(pkg, st.Size()) {
		return "", false
	}
	return path, true
}

func marker(pkg npmPackage, size int64) string {
	return fmt.Sprintf("%s@%s %s %d\n", pkg.name, libraryVersion, pkg.integrity, size)
}

// install installs the library in dir and returns its path. If another process is installing it, install waits for that
// process.
func install(ctx context.Context, dir string, pkg npmPackage, progress func(string)) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock cache: %w", err)
	}
	defer func() { _ = lock.Close() }()
	waiting := sync.OnceFunc(func() { progress("waiting for another llmtap that installs libchdb") })
	if err := lockFile(ctx, lock, 200*time.Millisecond, backoff.WithNotify(func(error, time.Duration) { waiting() })); err != nil {
		return "", fmt.Errorf("lock cache: %w", err)
	}
	if path, ok := cached(dir, pkg); ok {
		return path, nil
	}
	old, _ := filepath.Glob(filepath.Join(dir, "install-*"))
	for _, d := range old { // left behind by killed installations
		_ = os.RemoveAll(d)
	}
	tmp, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return "", fmt.Errorf("create cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	tarball, err := npmPack(ctx, tmp, pkg, progress)
	if err != nil {
		return "", err
	}
	progress("checking and unpacking libchdb")
	if err := checkIntegrity(tarball, pkg.integrity); err != nil {
		return "", err
	}
	fresh := filepath.Join(tmp, "libchdb.so")
	size, err := extract(ctx, tarball, "package/libchdb.so", fresh)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "libchdb.so")
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("install libchdb: %w", err)
	}
	if err := os.WriteFile(path+".verified", []byte(marker(pkg, size)), 0o644); err != nil {
		return "", fmt.Errorf("install libchdb: %w", err)
	}
	progress("installed libchdb in " + dir)
	return path, nil
}

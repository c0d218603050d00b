package chdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// LibraryVersion is the exact version of libchdb that is used.
const LibraryVersion = "26.7.3-stable.1"

// libraryEnv names a file to use as the library instead of the cached one.
const libraryEnv = "LLMTAP_LIBCHDB"

// A npmPackage holds the library for one platform. Integrity is npm's checksum of its tarball.
type npmPackage struct{ name, integrity string }

// npmPackages by GOOS/GOARCH. A platform without an entry, because its checksum is not known, takes a file named by
// LLMTAP_LIBCHDB.
var npmPackages = map[string]npmPackage{
	"linux/amd64": {"@chdb/lib-linux-x64-gnu", "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw=="},
}

// LibraryConfig says where to look for the library.
type LibraryConfig struct {
	CacheDir string            // "": llmtap's folder in the user's cache directory
	Progress func(line string) // told what a long installation is doing; nil: nobody
}

// FindLibrary returns the path of libchdb: the file that LLMTAP_LIBCHDB names, the one in the cache, or one that the
// npm client installs into the cache now (178 MB). Several processes may call it at once; one installs.
func FindLibrary(ctx context.Context, cfg LibraryConfig) (string, error) {
	path, err := PresentLibrary(cfg)
	if path != "" || err != nil {
		return path, err
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	dir, err := cfg.dir()
	if err != nil {
		return "", noLibrary(err)
	}
	if path, err = install(ctx, dir, npmPackages[runtime.GOOS+"/"+runtime.GOARCH], cfg.Progress); err != nil {
		return "", noLibrary(err)
	}
	return path, nil
}

// PresentLibrary returns what FindLibrary does if nothing must be installed for it, and "" if the npm client can. An
// error says that the library is not there and cannot be had.
func PresentLibrary(cfg LibraryConfig) (string, error) {
	if path := os.Getenv(libraryEnv); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("find libchdb: %w", err)
		}
		if st, err := os.Stat(path); err != nil || st.IsDir() {
			return "", fmt.Errorf("find libchdb: %s names %s, which is no file", libraryEnv, path)
		}
		return path, nil
	}
	dir, err := cfg.dir()
	if err != nil {
		return "", noLibrary(err)
	}
	pkg, known := npmPackages[runtime.GOOS+"/"+runtime.GOARCH]
	if path, ok := cached(dir, pkg); ok {
		return path, nil
	}
	if !known {
		return "", noLibrary(fmt.Errorf("no package for %s/%s is known", runtime.GOOS, runtime.GOARCH))
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", noLibrary(errNoNPM)
	}
	return "", nil
}

// dir is where the library of this version is or will be.
func (c LibraryConfig) dir() (string, error) {
	if c.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		c.CacheDir = filepath.Join(user, "llmtap")
	}
	return filepath.Join(c.CacheDir, "libchdb-"+LibraryVersion), nil
}

// noLibrary adds to err what its reader can do.
func noLibrary(err error) error {
	return fmt.Errorf("get libchdb %s, the embedded ClickHouse: %w; either install npm (Node.js) and try again, or set %s to a libchdb.so of this "+
		"version, or use a ClickHouse server: clickhouse.dsn or LLMTAP_CLICKHOUSE_DSN", LibraryVersion, err, libraryEnv)
}

// cached finds the library in dir. The marker beside it was written after its checksum was right; it says of which
// tarball and how many bytes.
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
	return fmt.Sprintf("%s@%s %s %d\n", pkg.name, LibraryVersion, pkg.integrity, size)
}

// install gets the library into dir unless another process does so meanwhile.
func install(ctx context.Context, dir string, pkg npmPackage, progress func(string)) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock cache: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := waitLock(ctx, lock, progress); err != nil {
		return "", err
	}
	if path, ok := cached(dir, pkg); ok {
		return path, nil
	}
	old, _ := filepath.Glob(filepath.Join(dir, "install-*"))
	for _, d := range old { // of installations that were killed
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

// waitLock waits until no other process installs.
func waitLock(ctx context.Context, lock *os.File, progress func(string)) error {
	for told := false; ; told = true {
		err := tryLock(lock)
		if err == nil {
			return nil
		}
		if !wouldBlock(err) {
			return fmt.Errorf("lock cache: %w", err)
		}
		if !told {
			progress("waiting for another llmtap that installs libchdb")
		}
		select {
		case <-ctx.Done():
			return errors.New("gave up waiting for another llmtap that installs it")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

package browsertest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// browserEnv is the environment variable for the path of a Chromium that is used instead of others.
const browserEnv = "LLMTAP_TEST_CHROMIUM"

// A download is a file of an npm package.
type download struct {
	name, version, integrity string // of the package; integrity is npm's checksum of its tarball
	file                     string // in the package
	into                     string // name in the cache
	mode                     os.FileMode
	open                     func(io.Reader) io.Reader // decompresses the file; nil: it is not compressed
}

var (
	chromium = download{
		"@sparticuz/chromium", "153.0.0", "sha512-jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
		"package/bin/chromium.br", "chromium", 0o755, func(r io.Reader) io.Reader { return brotli.NewReader(r) },
	}
	axe = download{
		"axe-core", "4.14.1", "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
		"package/axe.min.js", "axe.min.js", 0o644, nil,
	}
)

// find returns the path of Chromium. Without one, the test fails on CI and is skipped elsewhere.
func find(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(browserEnv); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		return unavailable(t, errors.New("no Chromium is installed, and no package contains one for this platform"))
	}
	path, err := chromium.get(t.Context())
	if err != nil {
		return unavailable(t, err)
	}
	return path
}

// unavailable ends a test that lacks something from outside.
func unavailable(t testing.TB, err error) string {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("nothing checks the web pages: %v", err)
	}
	t.Skipf("SKIPPED, nothing checks the web pages: %v; install chromium and npm, or set %s", err, browserEnv)
	return ""
}

// get returns the path of the file in the cache, which it downloads once.
func (d download) get(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "llmtap", strings.ReplaceAll(d.name, "/", "-")+"-"+d.version)
	path := filepath.Join(dir, d.into)
	if _, err := os.Stat(path); err == nil { // complete and checked, since it was renamed
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", tmp, d.name+"@"+d.version)
	cmd.Dir = tmp // a project's .npmrc must not be used
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s: %w: %s", d.name, d.version, err, out)
	}
	found, _ := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if len(found) != 1 {
		return "", fmt.Errorf("npm pack %s@%s: found %d tarballs, want 1", d.name, d.version, len(found))
	}
	fresh := filepath.Join(tmp, d.into)
	if err := d.extract(found[0], fresh); err != nil {
		return "", fmt.Errorf("unpack %s@%s: %w", d.name, d.version, err)
	}
	return path, os.Rename(fresh, path)
}

// extract checks a tarball and writes the file to path.
func (d download) extract(tarball, path string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != d.integrity {
		return fmt.Errorf("checksum is %s, want %s: the download was altered and is not used", got, d.integrity)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	files := tar.NewReader(z)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("%s: %w", d.file, err)
		}
		if header.Name == d.file {
			break
		}
	}
	var content io.Reader = files
	if d.open != nil {
		content = d.open(files)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, d.mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

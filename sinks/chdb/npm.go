package chdb

import (
	"archive/tar"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// progressInterval is the interval of progress messages during a download.
const progressInterval = 5 * time.Second

var errNoNPM = errors.New("npm is not installed")

// npmPack downloads the tarball of pkg into dir and returns its path. It uses the npm client with the user's npm
// configuration.
func npmPack(ctx context.Context, dir string, pkg npmPackage, progress func(string)) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errNoNPM
	}
	spec := pkg.name + "@" + libraryVersion
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", dir, spec)
	cmd.Dir = dir // a project's .npmrc must not be used
	cmd.WaitDelay = time.Second
	progress("downloading " + spec + " with npm (178 MB, once)")
	done := make(chan struct{})
	stopped := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(stopped)
		t := time.NewTicker(progressInterval)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-t.C:
				progress(fmt.Sprintf("downloading libchdb: %s", now.Sub(start).Round(time.Second)))
			}
		}
	}()
	out, err := cmd.CombinedOutput()
	close(done)
	<-stopped
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w: %s", spec, err, lastLine(string(out)))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s: found %d tarballs, want 1", spec, len(found))
	}
	return found[0], nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// checkIntegrity returns an error unless the checksum of a file is want, which is in npm's format "sha512-<base64>".
func checkIntegrity(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("check tarball: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check tarball: %w", err)
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("check tarball: checksum is %s, want %s: the download was altered and is not used", got, want)
	}
	return nil
}

// maxLibrary is the maximum size of the unpacked library. Its actual size is 566 MB.
const maxLibrary = 2 << 30

// extract extracts the file name from a .tgz to path and returns its size.
func extract(ctx context.Context, tarball, name, path string) (int64, error) {
	f, err := os.Open(tarball)
	if err != nil {
		return 0, fmt.Errorf("unpack tarball: %w", err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return 0, fmt.Errorf("unpack tarball: %w", err)
	}
	for tr := tar.NewReader(z); ; {
		hd, err := tr.Next()
		if err != nil {
			return 0, fmt.Errorf("unpack %s: %w", name, err)
		}
		if hd.Name != name || hd.Typeflag != tar.TypeReg {
			continue
		}
		if hd.Size > maxLibrary {
			return 0, fmt.Errorf("unpack %s: size of %d bytes is too large", name, hd.Size)
		}
		return hd.Size, writeFile(ctx, path, tr)
	}
}

// writeFile writes r to a new file and syncs it to disk.
func writeFile(ctx context.Context, path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return fmt.Errorf("unpack libchdb: %w", err)
	}
	_, err = io.Copy(f, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	}))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("unpack libchdb: %w", err)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

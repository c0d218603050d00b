//go:build linux

package packaging

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// distroless are the Debian packages of gcr.io/distroless/cc-debian12 that have files which programs use.
var distroless = []string{"base-files", "ca-certificates", "libc6", "libgcc-s1", "libgomp1", "libssl3", "libstdc++6", "netbase", "tzdata"}

// TestImage runs llmtap in the root file system that the Dockerfile describes, read-only and as its user. There is no container engine:
// the base image is made of its Debian packages.
func TestImage(t *testing.T) {
	need(t, "dpkg-deb", "dpkg")
	need(t, "unshare", "util-linux")
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can change its root directory")
	}
	docker := read(t, "deploy/docker/Dockerfile")
	field := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile("(?m)^"+pattern).FindAllStringSubmatch(docker, -1)
		if m == nil {
			t.Fatalf("the Dockerfile has no %s", pattern)
		}
		return m[len(m)-1][1]
	}
	if v := field(`FROM golang:(\S+)-bookworm AS build`); !strings.Contains(read(t, "go.mod"), "\ngo "+v+"\n") {
		t.Errorf("the image is built with Go %s, which go.mod does not have", v)
	}
	if base := field(`FROM (\S+)`); base != "gcr.io/distroless/cc-debian12:nonroot" {
		t.Fatalf("another base image, %s: change the packages of this test", base)
	}
	var entrypoint, command []string
	for pattern, list := range map[string]*[]string{`ENTRYPOINT (\[.*\])`: &entrypoint, `CMD (\[.*\])`: &command} {
		must.Do(t, json.Unmarshal([]byte(field(pattern)), list))
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/nonroot", "LLMTAP_RECEIVE_GRPC_LISTEN=127.0.0.1:0", "LLMTAP_NATS_PORT=-1"}
	env = append(env, strings.Fields(field(`ENV (.*)`))...)
	data, user := field(`VOLUME (\S+)`), field(`USER (\S+)`)
	must.Equal(t, field(`COPY --from=build --chown=(\S+) /out/var/lib/llmtap`), user, "the data belongs to, but %s runs", user)

	root := imageRoot(t)
	cache := regexp.MustCompile(`LLMTAP_CHDB_CACHE_DIR=(\S+)`).FindStringSubmatch(docker)[1]
	copyFile(t, llmtap(t), filepath.Join(root, filepath.FromSlash(entrypoint[0])))
	library := strings.TrimSpace(run(t, nil, llmtap(t), "engine"))
	installed := filepath.Join(root, filepath.FromSlash(cache), filepath.Base(filepath.Dir(library)))
	for _, name := range []string{"", ".verified"} {
		copyFile(t, library+name, filepath.Join(installed, filepath.Base(library)+name))
	}
	for _, dir := range []string{data, "/tmp", "/proc", "/dev"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, filepath.FromSlash(dir)), 0o755))
	}
	ports := map[string]string{}
	for _, name := range []string{"LLMTAP_LISTEN", "LLMTAP_RECEIVE_LISTEN", "LLMTAP_UI_LISTEN", "LLMTAP_PROXY_LISTEN"} {
		ports[name] = freeAddress(t)
		env = append(env, name+"="+ports[name])
	}
	// Namespaces of mounts and processes: nothing remains when the first process ends.
	const script = `set -e
root=$1 data=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -t tmpfs -o size=2g,mode=0700,uid=${user%:*},gid=${user#*:} tmpfs "$root$data"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for name in null urandom; do
	touch "$root/dev/$name"
	mount --bind /dev/$name "$root/dev/$name"
done
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups="${user#*:}" "$root" "$@"`
	args := append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", root, data, user}, entrypoint...)
	cmd := exec.Command("unshare", append(args, command...)...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		await(t, ended, "http://"+ports["LLMTAP_LISTEN"]+path)
	}
	await(t, ended, "http://"+ports["LLMTAP_UI_LISTEN"]+"/")
	// A query runs in the embedded ClickHouse.
	rows := run(t, []string{"LLMTAP_URL=http://" + ports["LLMTAP_LISTEN"]}, llmtap(t), "query", "--format", "csv", "--sql", "SELECT count() AS n FROM exchanges_final")
	must.Equal(t, strings.TrimSpace(rows), "n\n0", "query: %q", rows)
}

// imageRoot returns a directory with the files of the base image.
func imageRoot(t *testing.T) string {
	t.Helper()
	packages, root := filepath.Join(t.TempDir(), "packages"), filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{packages, root} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the user of the image must get there
			t.Fatal(err)
		}
	}
	cmd := exec.Command("apt-get", append([]string{"download", "-q"}, distroless...)...)
	cmd.Dir = packages
	if text, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("apt-get download: %v\n%s", err, text)
		}
		t.Skipf("SKIPPED: apt-get download: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil || len(files) != len(distroless) {
		t.Fatalf("%d packages, %v", len(files), err)
	}
	for _, f := range files {
		run(t, nil, "dpkg-deb", "-x", f, root)
	}
	return root
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in := must.Get(os.Open(from))(t)
	defer in.Close()
	must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// await waits until a URL answers 200.
func await(t *testing.T, ended <-chan error, url string) {
	t.Helper()
	last := ""
	must.Wait(t, url, func() bool {
		select {
		case err := <-ended:
			t.Fatalf("llmtap ended: %v", err)
		default:
		}
		resp, err := http.Get(url)
		if err != nil {
			last = err.Error()
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		last = string(text)
		return resp.StatusCode == http.StatusOK
	}, func() any { return last })
}

package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the packager
	"sigs.k8s.io/yaml"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// TestCompose checks deploy/docker with the secrets that its script writes.
func TestCompose(t *testing.T) {
	need(t, "docker-compose", "docker-compose")
	dir := filepath.Join(t.TempDir(), "deploy", "docker")
	for _, name := range []string{"compose.yaml", "llmtap.yaml", "nats.conf", "prometheus.yml", "secrets.sh"} {
		write(t, filepath.Join(dir, name), read(t, "deploy/docker/"+name), 0o700)
	}
	secrets := func(env ...string) string {
		return run(t, append(env, "LLMTAP="+llmtap(t), "NATS_DIR="+filepath.Join(dir, "secrets", "nats")), filepath.Join(dir, "secrets.sh"), "checkout-agent")
	}
	file := func(name string) string { return string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t)) }
	elsewhere := func() string { secrets("LLMTAP_HOST=llmtap.internal"); return file(".env") }()
	must.Contain(t, elsewhere, "@nats:4222\nAGENTS_BIND=0.0.0.0\n", "for agents on other machines")
	must.Contain(t, file("secrets/nats/checkout-agent.env"), "@llmtap.internal:4222\n", "for agents on other machines")
	secrets()
	must.Equal(t, file(".env"), strings.Replace(elsewhere, "AGENTS_BIND=0.0.0.0\n", "", 1), "another run replaces passwords, or forgets where agents are")
	must.Contain(t, file("secrets/nats/checkout-agent.env"), "@127.0.0.1:4222\n", "for agents on this machine")
	if st, err := os.Stat(filepath.Join(dir, "secrets")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("other users of the host can read secrets: %v, %v", st.Mode(), err)
	}
	project := []string{"--project-directory", dir, "-f", filepath.Join(dir, "compose.yaml")}
	text := run(t, nil, "docker-compose", append(project, "config")...)
	var c struct {
		Services map[string]struct {
			Volumes     []string
			ReadOnly    bool     `json:"read_only"`
			MemLimit    any      `json:"mem_limit"`
			SecurityOpt []string `json:"security_opt"`
			Ports       []string
			Environment map[string]string
		}
		Secrets map[string]struct{ File string }
	}
	must.Do(t, yaml.Unmarshal([]byte(text), &c))
	for _, name := range []string{"llmtap", "nats", "clickhouse", "prometheus", "grafana"} {
		s, ok := c.Services[name]
		if !ok || len(s.SecurityOpt) == 0 || s.MemLimit == nil {
			t.Errorf("no service %s, or it may gain privileges or take all memory", name)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s listens on %s", name, p)
			}
		}
		for _, v := range s.Volumes { // those with a path are files of the repository, or written by secrets.sh
			path, _, _ := strings.Cut(v, ":")
			if !filepath.IsAbs(path) {
				continue
			}
			if !strings.HasPrefix(path, dir) {
				rel := must.Get(filepath.Rel(filepath.Dir(filepath.Dir(dir)), path))(t)
				path = filepath.Join(top, rel)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s mounts %s: %v", name, v, err)
			}
		}
	}
	if !c.Services["llmtap"].ReadOnly {
		t.Error("llmtap can write to its image")
	}
	for name, s := range c.Secrets {
		if text, err := os.ReadFile(s.File); err != nil || len(text) != 64 {
			t.Errorf("secret %s: %d bytes, %v", name, len(text), err)
		}
	}
	checkConfig(t, read(t, "deploy/docker/llmtap.yaml"), "NATS_URL="+c.Services["llmtap"].Environment["NATS_URL"])
}

// TestUnit checks the systemd unit, and that it is as much of a sandbox as it was.
func TestUnit(t *testing.T) {
	need(t, "systemd-analyze", "systemd")
	path := filepath.Join(t.TempDir(), "llmtap.service")
	write(t, path, strings.ReplaceAll(read(t, "deploy/systemd/llmtap.service"), "/usr/bin/llmtap", llmtap(t)), 0o600)
	must.Equal(t, run(t, nil, "systemd-analyze", "verify", path), "", "run")
	out := run(t, nil, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", path) // 2.0 of 10
	t.Log(strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n"):]))
}

// TestDeb builds the Debian package as goreleaser does, and runs what is in it.
func TestDeb(t *testing.T) {
	need(t, "dpkg-deb", "dpkg")
	var release struct {
		NFPMs []map[string]any `json:"nfpms"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".goreleaser.yaml")), &release); err != nil || len(release.NFPMs) != 1 {
		t.Fatalf("%d packages, %v", len(release.NFPMs), err)
	}
	settings := release.NFPMs[0] // those of nfpm, but for these
	settings["name"], settings["depends"], settings["version"], settings["arch"] = settings["package_name"], settings["dependencies"], "1.2.3", "amd64"
	for _, name := range []string{"package_name", "dependencies", "formats"} {
		delete(settings, name)
	}
	settings["contents"] = append(settings["contents"].([]any), map[string]any{"src": llmtap(t), "dst": "/usr/bin/llmtap"})
	text := must.Get(yaml.Marshal(settings))(t)
	t.Chdir(top) // sources are relative to it
	cfg := must.Get(nfpm.Parse(bytes.NewReader(text)))(t)
	info := must.Get(cfg.Get("deb"))(t)
	packager := must.Get(nfpm.Get("deb"))(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "llmtap.deb")
	f := must.Get(os.Create(path))(t)
	must.Do(t, packager.Package(nfpm.WithDefaults(info), f))
	must.Do(t, f.Close())
	for _, line := range []string{"Package: llmtap", "Version: 1.2.3", "Architecture: amd64", "Depends: libc6"} {
		must.Contain(t, run(t, nil, "dpkg-deb", "--info", path), line)
	}
	run(t, nil, "dpkg-deb", "-R", path, filepath.Join(dir, "root")) // with the scripts in DEBIAN
	root := func(name string) string { return filepath.Join(dir, "root", filepath.FromSlash(name)) }
	must.Contain(t, run(t, nil, root("usr/bin/llmtap"), "version"), "llmtap")
	run(t, nil, root("usr/bin/llmtap"), "config", "--check", root("etc/llmtap/llmtap.yaml"))
	run(t, nil, root("usr/bin/llmtap"), "config", "--check", root("usr/share/doc/llmtap/llmtap.example.yaml"))
	must.Equal(t, strings.TrimSpace(string(must.Get(os.ReadFile(root("DEBIAN/conffiles")))(t))), "/etc/llmtap/llmtap.yaml", "conffiles")
	for _, script := range []string{"postinst", "prerm"} {
		run(t, nil, "sh", "-n", root("DEBIAN/"+script))
	}
	unit := must.Get(os.ReadFile(root("lib/systemd/system/llmtap.service")))(t)
	if start := regexp.MustCompile(`(?m)^ExecStart=(\S+)`).FindSubmatch(unit); start == nil || exec.Command("test", "-x", root(string(start[1]))).Run() != nil {
		t.Errorf("the unit starts %s, which the package does not have", start)
	}
}

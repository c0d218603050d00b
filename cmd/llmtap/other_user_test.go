package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	daemon = 1     // user id of the collector's files
	nobody = 65534 // user id of the commands
)

// A command of a user without permission to read the data directory or the configuration reports this and the owner.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, requires root; see TestDenied in internal/config")
	}
	root := t.TempDir()
	for _, dir := range []string{filepath.Dir(root), root} {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	binary := filepath.Join(root, "llmtap") // TestMain runs main under this name
	must.Do(t, os.Link(os.Args[0], binary))
	dir := filepath.Join(root, "data")
	f := newFindTest(t, dir, "")
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, daemon, daemon)
		}
		if errors.Is(err, fs.ErrNotExist) { // removed by a merge of ClickHouse
			return nil
		}
		return err
	})
	must.Do(t, err)
	write := func(name string, owner int, mode os.FileMode, text string) string {
		name = filepath.Join(root, name)
		must.Do(t, errors.Join(os.WriteFile(name, []byte(text), mode), os.Chown(name, owner, owner)))
		return name
	}
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	elsewhere := write("elsewhere.yaml", 0, 0o644, "data_dir: "+dir+"\nlisten: "+closed+"\n")
	here := write("here.yaml", 0, 0o644, "data_dir: "+dir+"\nlisten: "+f.listen+"\n")
	secret := write("secret.yaml", 0, 0o600, "data_dir: "+dir+"\n")
	daemons := write("daemon.yaml", daemon, 0o600, "data_dir: "+dir+"\n")
	llmtap := func(want string, code int, args ...string) {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Env, cmd.Dir, cmd.Stdin = []string{"HOME=/nonexistent"}, "/", strings.NewReader(recordedCall)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(string(out)), " "); cmd.ProcessState.ExitCode() != code || !strings.Contains(text, want) {
			t.Errorf("llmtap %q: exit code %d, want %d and %q in\n%s", args, cmd.ProcessState.ExitCode(), code, want, out)
		}
	}
	const denied = "permission denied: llmtap runs as user daemon; you are nobody; run the command with sudo -u daemon"
	for _, reads := range [][]string{{"query", "causes"}, {"show", f.exchange}, {"tail"}, {"explain", "--unknown"}, {"alerts", "backtest"}} {
		llmtap(denied+", or use --url http://"+closed, command.ExitFailed, append(reads, "--config", elsewhere)...)
	}
	for _, direct := range [][]string{{"import", "-"}, {"forget", "--conversation", "x", "--yes"}, {"schema", "status"}, {"doctor"}, {"up"}} {
		llmtap(denied, command.ExitFailed, append(direct, "--data-dir", dir)...)
	}
	llmtap("orphan_tool_reply", command.ExitOK, "query", "causes", "--config", here)
	llmtap("orphan_tool_reply", command.ExitOK, "show", f.exchange, "--url", "http://"+f.listen)
	llmtap(denied, command.ExitBadInput, "query", "causes", "--config", daemons)
	llmtap("permission denied: it belongs to root; you are nobody; run the command with sudo", command.ExitBadInput, "query", "causes", "--config", secret)
}

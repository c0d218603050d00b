package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestDenied(t *testing.T) {
	me := userName(os.Getuid())
	dir := t.TempDir()
	err := fmt.Errorf("open it: %w", fs.ErrPermission)
	// The owner of a file that is hidden is that of the directory.
	for _, path := range []string{dir, filepath.Join(dir, "no", "such", "file")} {
		denied, ok := errors.AsType[*PermissionError](Denied(path, err))
		if !ok || denied.Owner != me || denied.User != me || denied.Path != path {
			t.Errorf("%s: %+v", path, denied)
		}
	}
	for _, other := range []error{nil, fs.ErrNotExist} {
		must.Is(t, Denied(dir, other), other)
	}
	f := func(owner, want string) {
		t.Helper()
		must.Equal(t, (&PermissionError{Path: "/var/lib/llmtap", Owner: owner, User: "ann"}).Error(), want, "error")
	}
	f("llmtap", "open /var/lib/llmtap: permission denied: llmtap runs as user llmtap; you are ann; run the command with sudo -u llmtap")
	f("root", "open /var/lib/llmtap: permission denied: it belongs to root; you are ann; run the command with sudo")
	f("ann", "open /var/lib/llmtap: permission denied, although it belongs to user ann; check its mode")
}

// A configuration file of another user is an error that names both users; other values are read nevertheless.
func TestLoadDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("SKIPPED, root may read every file; see TestOtherUser in cmd/llmtap")
	}
	file := filepath.Join(t.TempDir(), "llmtap.yaml")
	must.Do(t, os.WriteFile(file, []byte("roles: [alert]\n"), 0))
	e, err := Load(file, func(name string) string { return map[string]string{"LLMTAP_SLACK_CHANNEL": "#oncall"}[name] })
	if _, ok := errors.AsType[*PermissionError](err); !ok || !strings.Contains(err.Error(), file) || e.Slack.Channel != "#oncall" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestLocalURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8088": "http://127.0.0.1:8088", "0.0.0.0:8088": "http://127.0.0.1:8088", "[::]:8088": "http://127.0.0.1:8088",
		":8088": "http://127.0.0.1:8088", "10.0.0.7:80": "http://10.0.0.7:80", "127.0.0.1:0": "", "x": "",
	} {
		must.Equal(t, LocalURL(addr, false), want, "%s", addr)
	}
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// A PermissionError means that a file of an installation belongs to another user.
type PermissionError struct {
	Path        string
	Owner, User string // names of the owner and of the user of this process
}

func (e *PermissionError) Error() string {
	switch e.Owner {
	case e.User:
		return fmt.Sprintf("open %s: permission denied, although it belongs to user %s; check its mode", e.Path, e.User)
	case "root": // of a configuration file, which the user of llmtap reads as a member of its group
		return fmt.Sprintf("open %s: permission denied: it belongs to root; you are %s; run the command with sudo", e.Path, e.User)
	}
	return fmt.Sprintf("open %s: permission denied: llmtap runs as user %s; you are %s; run the command with sudo -u %s", e.Path, e.Owner, e.User, e.Owner)
}

// Denied returns a *PermissionError if err, an error of opening path, is one of permissions, and else err.
func Denied(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &PermissionError{Path: path, Owner: userName(owner(path)), User: userName(os.Getuid())}
}

// owner returns the user id of the owner of path, or of the nearest directory above it that is visible to this user.
func owner(path string) int {
	path, err := filepath.Abs(path)
	for ; err == nil; path = filepath.Dir(path) {
		st, statErr := os.Lstat(path)
		if statErr == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				return int(sys.Uid)
			}
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	return 0
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "#" + id // as sudo expects it
}

// LocalURL returns the base URL at which this machine reaches a listener on addr, over TLS if secure is set, or "" if addr has no
// port.
func LocalURL(addr string, secure bool) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" || port == "0" {
		return ""
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(LocalHost(host), port)
}

// LocalHost returns the host at which this machine reaches a listener on host.
func LocalHost(host string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

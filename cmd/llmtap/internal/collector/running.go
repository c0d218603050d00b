package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// Running describes a running llmtap to other commands on this machine. It is stored in llmtap.json in the data directory,
// readable by this user only, and contains no secrets. The process holds a lock on the file, so that a file left by a killed
// process is recognised.
type Running struct {
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`
	Version  string    `json:"version"`
	Roles    []string  `json:"roles"`
	NATSURL  string    `json:"nats_url,omitempty"`  // URL of the embedded server
	HTTPAddr string    `json:"http_addr"`           // address that serves health, metrics and queries
	CertFile string    `json:"cert_file,omitempty"` // file of the certificate of all listeners; empty: they do not use TLS
	PagesURL string    `json:"pages_url,omitempty"` // base URL of the web pages
	// NoUserKey is true if the process has no key for the hashes of users.
	NoUserKey bool `json:"no_user_key,omitempty"`
	// UserKey is the line that gives hooks the key, unless it is in the environment of the process.
	UserKey string `json:"user_key,omitempty"`
	// ReceiveURL is the URL of the receiver of events over HTTP, if it listens.
	ReceiveURL string `json:"receive_url,omitempty"`
	// OTLPURL is the URL of the receiver of OpenTelemetry over gRPC, if it listens.
	OTLPURL string `json:"otlp_url,omitempty"`
}

func runningFile(dataDir string) string { return filepath.Join(dataDir, "llmtap.json") }

// Announce stores r and returns a function that removes it. If several processes use dataDir, which is possible with
// external servers only, only the first is stored.
func Announce(dataDir string, r Running) (remove func(), err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	f, err := os.OpenFile(runningFile(dataDir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("announce this process: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for attempts := 1; errors.Is(err, syscall.EWOULDBLOCK) && attempts < 4; attempts++ {
		time.Sleep(10 * time.Millisecond) // FindRunning may hold the lock for an instant
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return func() {}, nil
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	remove = func() {
		_ = os.Remove(f.Name())
		_ = f.Close()
	}
	err = f.Truncate(0)
	if err == nil {
		err = json.NewEncoder(f).Encode(r)
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("announce this process: %w", err)
	}
	return remove, nil
}

// ErrNotRunning means that llmtap is not running on a data directory.
var ErrNotRunning = errors.New("llmtap is not running")

// FindRunning returns the llmtap that runs on dataDir. The error is ErrNotRunning if there is none, or a
// *config.PermissionError if another user owns the directory.
func FindRunning(dataDir string) (r Running, err error) {
	f, err := os.Open(runningFile(dataDir))
	if denied, ok := errors.AsType[*config.PermissionError](config.Denied(runningFile(dataDir), err)); ok {
		return r, denied
	} else if err != nil {
		return r, ErrNotRunning
	}
	defer func() { _ = f.Close() }()                                        // used for reading only
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil { // no process holds the lock
		return r, ErrNotRunning
	}
	if err := json.NewDecoder(f).Decode(&r); err != nil {
		return r, ErrNotRunning // the process has just started
	}
	return r, nil
}

// URL returns the base URL of the HTTP listener for programs on this machine.
func (r *Running) URL() string { return config.LocalURL(r.HTTPAddr, r.CertFile != "") }

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// running is what a process that runs on a data directory tells other commands on this machine. It stands in
// llmtap.json, for this user only, and holds no secret. The process holds a lock on the file; a file that nobody holds
// was left behind by a kill.
type running struct {
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`
	Version  string    `json:"version"`
	Roles    []string  `json:"roles"`
	NATSURL  string    `json:"nats_url,omitempty"` // of the embedded server
	HTTPAddr string    `json:"http_addr"`          // of health and metrics
}

func runningPath(dataDir string) string { return filepath.Join(dataDir, "llmtap.json") }

// announce writes r and returns what takes it back. Of several processes on one directory, which use servers elsewhere,
// the first is told of.
func announce(dataDir string, r running) (remove func(), err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	f, err := os.OpenFile(runningPath(dataDir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("say that llmtap runs: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for tries := 0; errors.Is(err, syscall.EWOULDBLOCK) && tries < 3; tries++ {
		time.Sleep(10 * time.Millisecond) // findRunning holds it for an instant
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
		return nil, fmt.Errorf("say that llmtap runs: %w", err)
	}
	return remove, nil
}

// findRunning returns what the process that runs on dataDir says of itself; false when none runs.
func findRunning(dataDir string) (running, bool) {
	var r running
	f, err := os.Open(runningPath(dataDir))
	if err != nil {
		return r, false
	}
	defer func() { _ = f.Close() }()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil { // nobody holds it
		return r, false
	}
	return r, json.NewDecoder(f).Decode(&r) == nil
}

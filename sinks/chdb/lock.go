package chdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// An owner is the content of the lock file: the process that holds the directory and how to reach its server.
type owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	DSN   string    `json:"dsn"`
}

func lockPath(dir string) string { return filepath.Join(dir, "llmtap.lock") }

// A dirLock keeps other processes off a data directory for as long as the file is open.
type dirLock struct{ file *os.File }

// Somebody who asks whether a server is Running holds the lock for an instant.
const (
	lockTries = 3
	lockPause = 30 * time.Millisecond
)

func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock ClickHouse directory: %w", err)
	}
	err = tryLock(f)
	for range lockTries {
		if !wouldBlock(err) {
			break
		}
		time.Sleep(lockPause)
		err = tryLock(f)
	}
	if err != nil {
		defer func() { _ = f.Close() }()
		if !wouldBlock(err) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		var o owner
		who := "another process"
		if json.NewDecoder(f).Decode(&o) == nil {
			who = fmt.Sprintf("process %d, since %s,", o.PID, o.Since.Format(time.RFC3339))
		}
		return nil, fmt.Errorf("open ClickHouse directory %s: %s has it open; stop that process, give this one another data_dir (--data-dir), "+
			"or share one server through clickhouse.dsn (LLMTAP_CLICKHOUSE_DSN)", dir, who)
	}
	return &dirLock{file: f}, nil
}

func tryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// wouldBlock says that tryLock failed because another process holds the lock.
func wouldBlock(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// announce writes who holds the lock. It holds a password; the file's mode is 0600.
func (l *dirLock) announce(o owner) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := l.file.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

func (l *dirLock) release() {
	_ = l.file.Truncate(0) // the password is of no use to anybody now
	_ = l.file.Close()
}

// Running is the DSN of the server that a process of the same user runs on dir; false if there is none.
func Running(dir string) (dsn string, ok bool) {
	f, err := os.Open(lockPath(dir))
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	var o owner
	if tryLock(f) == nil || json.NewDecoder(f).Decode(&o) != nil {
		return "", false
	}
	return o.DSN, o.DSN != ""
}

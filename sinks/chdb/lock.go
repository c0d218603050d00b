package chdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// An owner is the content of the lock file: the process that uses the directory and the DSN of its server.
type owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	DSN   string    `json:"dsn"`
}

// ErrInUse means that another process uses a data directory.
var ErrInUse = errors.New("the directory is in use")

func lockPath(dir string) string { return filepath.Join(dir, "llmtap.lock") }

// A dirLock protects a data directory from other processes while the file is open.
type dirLock struct{ file *os.File }

// lockDir locks dir. It retries, because Running briefly acquires the lock.
func lockDir(ctx context.Context, dir string) (*dirLock, error) {
	f, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock ClickHouse directory: %w", err)
	}
	if err = lockFile(ctx, f, 30*time.Millisecond, backoff.WithMaxTries(4)); err == nil {
		return &dirLock{file: f}, nil
	}
	defer func() { _ = f.Close() }()
	if !wouldBlock(err) {
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	var o owner
	holder := "another process"
	if json.NewDecoder(f).Decode(&o) == nil {
		holder = fmt.Sprintf("process %d, since %s,", o.PID, o.Since.Format(time.RFC3339))
	}
	return nil, fmt.Errorf("open ClickHouse directory %s: %w: %s has it open; stop that process, use another data_dir (--data-dir), "+
		"or share one server through clickhouse.dsn (LLMTAP_CLICKHOUSE_DSN)", dir, ErrInUse, holder)
}

// lockFile locks f. While another process holds the lock, it retries at this interval, without a time limit.
func lockFile(ctx context.Context, f *os.File, interval time.Duration, opts ...backoff.RetryOption) error {
	opts = append([]backoff.RetryOption{backoff.WithBackOff(backoff.NewConstantBackOff(interval)), backoff.WithMaxElapsedTime(0)}, opts...)
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := tryLock(f)
		if err != nil && !wouldBlock(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, opts...)
	return err
}

func tryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// wouldBlock reports whether tryLock failed because another process holds the lock.
func wouldBlock(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// announce writes o to the lock file. o contains a password, so the mode of the file is 0600.
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

// announceReader writes the DSN of the user who may only read to dir/reader.dsn, for people's own tools. Its password stays the same.
func announceReader(dir string, dsn url.URL) (password string, err error) {
	file := filepath.Join(dir, "reader.dsn")
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the DSN for readers: %w", err)
	}
	if u, err := url.Parse(strings.TrimSpace(string(old))); err == nil {
		password, _ = u.User.Password()
	}
	password = cmp.Or(password, rand.Text())
	dsn.User = url.UserPassword(httpd.Reader, password)
	if err := os.WriteFile(file, []byte(dsn.String()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the DSN for readers: %w", err)
	}
	return password, nil
}

func (l *dirLock) release() {
	_ = l.file.Truncate(0) // removes the password
	_ = l.file.Close()
}

// Running returns the DSN of the server that another process of the same user runs on dir. ok is false if there is no
// such server.
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

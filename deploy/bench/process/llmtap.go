package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// startTimeout is the time that llmtap has to become ready; it may first install ClickHouse.
const startTimeout = 3 * time.Minute

// An LLMTap is a running llmtap up, on a data directory of its own and on free ports.
type LLMTap struct {
	Process
	Dir     string
	NATSURL string // of its embedded NATS, with the token of collectors; "" if NATS is external

	url  string
	stop func()
}

// StartLLMTap runs llmtap up with flags until Stop is called, and waits until it is ready. binary is llmtap, and name the name
// of the process.
func StartLLMTap(ctx context.Context, binary, name, dir string, env []string, flags ...string) (*LLMTap, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{
		"up", "--data-dir", dir, "--log-format", "json", "--listen", "127.0.0.1:0", "--proxy-listen", "127.0.0.1:0", "--receive-listen", "127.0.0.1:0",
		"--receive-grpc-listen", "127.0.0.1:0", "--ui-listen", "127.0.0.1:0", "--nats-port", "-1",
	}, flags...)
	cmd, stop, err := Start(ctx, filepath.Join(dir, "llmtap.log"), append(environ(), env...), binary, args...)
	if err != nil {
		return nil, err
	}
	l := &LLMTap{Process: Process{name, cmd.Process.Pid}, Dir: dir, stop: stop}
	if err := l.ready(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("%w; the last lines of its log:\n%s", err, LastLines(filepath.Join(dir, "llmtap.log"), 5))
	}
	return l, nil
}

// environ returns the environment without the settings of another llmtap.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "LLMTAP_") && !strings.HasPrefix(v, "LLMTAP_LIBCHDB=")
	})
}

// LastLines returns the last n lines of a file.
func LastLines(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Stop ends the process. What it has read by then is stored.
func (l *LLMTap) Stop() { l.stop() }

// ready waits until the process is ready and sets its addresses.
func (l *LLMTap) ready(ctx context.Context) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		var running struct {
			NATSURL  string `json:"nats_url"`
			HTTPAddr string `json:"http_addr"`
		}
		file, err := os.ReadFile(filepath.Join(l.Dir, "llmtap.json"))
		if err == nil && json.Unmarshal(file, &running) == nil && running.HTTPAddr != "" {
			l.NATSURL, l.url = running.NATSURL, "http://"+running.HTTPAddr
			if token, err := os.ReadFile(filepath.Join(l.Dir, "nats", "collector.token")); err == nil {
				l.NATSURL = strings.Replace(running.NATSURL, "://", "://"+strings.TrimSpace(string(token))+"@", 1)
			}
			if res, err := l.get(ctx, "/readyz"); err == nil {
				_ = res.Body.Close() // only its status is read
				if res.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		if l.RSS() == 0 {
			return errors.New("llmtap has ended")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("llmtap is not ready after %v", startTimeout)
}

func (l *LLMTap) get(ctx context.Context, path string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(q)
}

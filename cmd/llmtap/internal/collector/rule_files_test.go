package collector

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// Changed files are loaded once they are complete, and immediately on a signal. Errors are logged.
func TestRuleFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.yaml")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("1")
	synctest.Test(t, func(t *testing.T) {
		var log testnet.Buffer
		hangups := make(chan os.Signal, 1)
		w := newRuleFiles([]string{file}, hangups, func(access.Record) {}, slog.New(slog.NewTextHandler(&log, nil)))
		var mu sync.Mutex // guards fails and loaded
		var fails error
		var loaded []string
		reload := func(context.Context) error {
			text, _ := os.ReadFile(file)
			mu.Lock()
			defer mu.Unlock()
			loaded = append(loaded, string(text))
			return fails
		}
		w.reload = append(w.reload, reload, reload)
		stop := must.Run(t, w.run)
		// f checks that the files are loaded as want after d, by both engines.
		f := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			must.Equal(t, strings.Join(loaded, " "), strings.Join(want, " "), "loaded")
			loaded = nil
		}
		f(12 * time.Second)
		write("2 half")
		f(4 * time.Second)
		write("2 whole")
		f(5 * time.Second)
		f(4*time.Second, "2 whole", "2 whole")
		f(time.Minute)
		hangups <- syscall.SIGHUP
		f(time.Millisecond, "2 whole", "2 whole")
		mu.Lock()
		fails = errors.New("r.yaml: not a rule")
		mu.Unlock()
		write("3")
		f(10*time.Second, "3", "3")
		f(time.Minute) // no retry
		if text := log.String(); strings.Count(text, "not a rule") != 1 || !strings.Contains(text, "previous alert rules stay in effect") || strings.Count(text, "reloaded") != 2 {
			t.Errorf("log:\n%s", text)
		}
		must.Do(t, os.Remove(file))
		f(10*time.Second, "", "")
		stop()
	})
}

func TestNoRuleFiles(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newRuleFiles(nil, nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
	w.reload = append(w.reload, func(context.Context) error { t.Error("the shipped rules were reloaded"); return nil })
	w.load(t.Context(), w.hash())
	must.Contain(t, log.String(), "shipped alert rules do not change")
}

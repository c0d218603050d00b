package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A change of the files is read when it is complete, a signal at once, and what cannot be read is in the log.
func TestRuleFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		hangups := make(chan os.Signal, 1)
		w := watchRuleFiles([]string{file}, hangups, slog.New(slog.NewTextHandler(&log, nil)))
		var mu sync.Mutex // guards the next two
		var fails error
		var read []string
		reload := func(context.Context) error {
			text, _ := os.ReadFile(file)
			mu.Lock()
			defer mu.Unlock()
			read = append(read, string(text))
			return fails
		}
		w.reload = append(w.reload, reload, reload)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.run(ctx) }()
		// f lets d pass and wants the files read as want says, by both engines.
		f := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(read, " "); got != strings.Join(want, " ") {
				t.Errorf("read %q, want %q", got, want)
			}
			read = nil
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
		f(time.Minute) // it is not tried again
		if text := log.String(); strings.Count(text, "not a rule") != 1 || !strings.Contains(text, "stay as they were") || strings.Count(text, "read again") != 2 {
			t.Errorf("the log has\n%s", text)
		}
		if rmErr := os.Remove(file); rmErr != nil {
			t.Fatal(rmErr)
		}
		f(10*time.Second, "", "")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNoRuleFiles(t *testing.T) {
	var log bytes.Buffer
	w := watchRuleFiles(nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
	w.reload = append(w.reload, func(context.Context) error { t.Error("the shipped rules were read again"); return nil })
	w.read(t.Context(), w.look())
	if !strings.Contains(log.String(), "the shipped alert rules stay") {
		t.Error(log.String())
	}
}

// The real process takes a change on SIGHUP, refuses a mistake, keeps running, and tells all of it.
func TestUpReadsRuleFilesAgain(t *testing.T) {
	needClickHouse(t)
	if testing.Short() {
		t.Skip("runs llmtap up")
	}
	file := filepath.Join(t.TempDir(), "r.yaml")
	write := func(alerts ...string) {
		t.Helper()
		text := "groups:\n- name: g\n  rules:\n"
		for _, a := range alerts {
			text += "  - {alert: " + a + ", expr: vector(1), labels: {severity: warning}}\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("First")
	t.Setenv("LLMTAP_ALERTS_RULE_FILES", file)
	u := startUp(t)
	u.ready(t)
	// says waits for a line of the log with all the words.
	says := func(words ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			for line := range strings.Lines(u.stderr.String()) {
				if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
					return
				}
			}
		}
		t.Fatalf("the log has no line with %q\n%s", words, u.stderr.String())
	}
	hangUp := func() {
		t.Helper()
		if err := u.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	says("state=firing", "alert=First")
	write("First", "Second")
	hangUp()
	says("alert rules read again")
	says("state=firing", "alert=Second")
	write("Second: {}")
	hangUp()
	says("rule files have mistakes", file)
	checks, _ := seeDoctor(t, map[string]string{"LLMTAP_ALERTS_RULE_FILES": file}, "--data-dir", u.dir)
	expect(t, checks, "rules", verdictFail, "keeps the rules that it had")
	write("Second") // nobody asks: it is seen
	says("state=resolved", "alert=First")
	if n := strings.Count(u.stderr.String(), "state=firing alert=Second"); n != 1 {
		t.Errorf("the alert that stayed was told %d times", n)
	}
}

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// llmtap up loads changed rule files on SIGHUP and by itself, and keeps the previous rules of invalid files.
func TestUpReadsRuleFilesAgain(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.yaml")
	write := func(alerts ...string) {
		t.Helper()
		text := "groups:\n- name: g\n  rules:\n"
		for _, a := range alerts {
			text += "  - {alert: " + a + ", expr: vector(1), labels: {severity: warning}}\n"
		}
		filetest.Write(t, file, text)
	}
	write("First")
	const key = "LLMTAP_ALERTS_RULE_FILES"
	u := &upProcess{dir: t.TempDir(), port: freePort(t), env: []string{key + "=" + file}}
	u.start(t)
	t.Cleanup(func() { u.kill(t) })
	u.ready(t)
	// says waits for a log line that contains all words.
	says := func(words ...string) {
		t.Helper()
		waitFor(t, u, fmt.Sprintf("a line of the log with %q", words), func() bool {
			return slices.ContainsFunc(strings.Split(u.stderr.String(), "\n"), func(line string) bool {
				return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
			})
		})
	}
	hangUp := func() {
		t.Helper()
		must.Do(t, u.cmd.Process.Signal(syscall.SIGHUP))
	}
	says("state=firing", "alert=First")
	write("First", "Second")
	hangUp()
	says("alert rules reloaded")
	says("state=firing", "alert=Second")
	write("Second: {}")
	hangUp()
	says("invalid rule files", file)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"doctor", "--format", "json", "--data-dir", u.dir}, nil, &out, &out, func(k string) string { return map[string]string{key: file}[k] }); err == nil || !strings.Contains(out.String(), "keeps its previous rules") {
		t.Errorf("llmtap doctor: %v\n%s", err, out.String())
	}
	write("Second") // without a signal
	says("state=resolved", "alert=First")
	if n := strings.Count(u.stderr.String(), "state=firing alert=Second"); n != 1 {
		t.Errorf("the unchanged alert was notified %d times", n)
	}
}

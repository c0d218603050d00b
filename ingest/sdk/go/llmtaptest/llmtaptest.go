// Package llmtaptest records the LLM calls of tests, for llmtap lint.
package llmtaptest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Record returns a hook whose Transport records calls in a file that llmtap lint reads, as llmtap record does. The file is complete
// when the test has ended. The command llmtap writes it, and must be on the PATH.
func Record(t testing.TB, file string) *llmtap.Hook {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("record calls with llmtap: %v; see https://github.com/llmtap/llmtap to install it", err)
		}
	}
	// The recorder ends with its child, which ends with this process or when its input is closed.
	recorder := exec.CommandContext(context.WithoutCancel(t.Context()), "llmtap", "record", "-o", file, "--", "sh", "-c", `echo "$`+event.EnvEndpoint+`"; exec cat`)
	recorder.Stderr = os.Stderr
	stdin, err := recorder.StdinPipe()
	check(err)
	stdout, err := recorder.StdoutPipe()
	check(err)
	check(recorder.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // the recorder may have ended
		check(recorder.Wait())
	})
	endpoint, err := bufio.NewReader(stdout).ReadString('\n')
	check(err)
	hook, err := llmtap.Open(llmtap.Config{
		Endpoint: strings.TrimSpace(endpoint), Capture: event.CaptureFull, Hosts: []string{"127.0.0.1", "localhost"}, FlushTimeout: 30 * time.Second,
	})
	check(err)
	t.Cleanup(func() { check(hook.Close()) })
	return hook
}

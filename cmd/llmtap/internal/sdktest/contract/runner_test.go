package contract

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A runner is the hook of a language in a process that reads commands and prints results.
type runner struct {
	language string
	in       io.WriteCloser
	out      *bufio.Reader
	err      *strings.Builder // output of the process
}

// startRunner starts cmd, which exits at the end of its input.
func startRunner(t testing.TB, language string, cmd *exec.Cmd) *runner {
	t.Helper()
	r := &runner{language: language, err: new(strings.Builder)}
	cmd.Stderr = r.err
	r.in = must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	r.out = bufio.NewReader(out)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		r.in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("%s: %v\n%s", language, err, r.err)
		}
	})
	return r
}

// do sends a command with the fields of args and decodes its result.
func (r *runner) do(t testing.TB, command string, args, answer any) {
	t.Helper()
	line := map[string]any{}
	data, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(data, &line)
	}
	must.Do(t, err)
	line["do"] = command
	must.Do(t, json.NewEncoder(r.in).Encode(line), r.language, "exited", r.err)
	if data, err = r.out.ReadBytes('\n'); err != nil {
		t.Fatalf("%s exited: %v\n%s", r.language, err, r.err)
	}
	must.Do(t, json.Unmarshal(data, answer), r.language, "responded", string(data))
}

func (r *runner) open(t testing.TB, o *options) { r.do(t, "open", o, new(struct{})) }

func (r *runner) call(t testing.TB, c *call) (results []result) {
	r.do(t, "call", c, &results)
	return results
}

func (r *runner) flush(t testing.TB, seconds float64) (s stats) {
	r.do(t, "flush", map[string]float64{"seconds": seconds}, &s)
	return s
}

func (r *runner) close(t testing.TB) { r.do(t, "close", struct{}{}, new(struct{})) }

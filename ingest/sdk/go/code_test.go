package llmtap

import (
	"regexp"
	"runtime"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCallerIsFirstFrameOfMainModule(t *testing.T) {
	var p *places
	f := func(name, file, want string) {
		t.Helper()
		must.Equal(t, p.place(&runtime.Frame{Function: name, File: file, Line: 7}), want, "place of %s in %s", name, file)
	}
	p = &places{main: "github.com/acme/agent", program: "github.com/acme/agent/cmd/agent"}
	f("main.main", "/home/u/agent/cmd/agent/main.go", "cmd/agent/main.go:7 main")
	f("github.com/acme/agent.Run", "github.com/acme/agent/run.go", "run.go:7 Run") // built with -trimpath
	f("github.com/acme/agent/core.(*Agent).Run.func1", "/src/core/agent.go", "core/agent.go:7 Agent.Run.func1")
	f("github.com/acme/agent/v%2e2.Map[go.shape.*github.com/x/y.T]", "/src/v.2/map.go", "v.2/map.go:7 Map[go.shape.*github.com/x/y.T]")
	f("github.com/acme/agent/core_test.TestRun", "/src/core/agent_test.go", "core/agent_test.go:7 TestRun")
	f("github.com/acme/agents.Run", "/src/agents.go", "")
	f("github.com/openai/openai-go/v3.New", "/root/go/pkg/mod/github.com/openai/openai-go/v3@v3.1.0/chat.go", "")
	f("net/http.(*Client).Do", "/usr/local/go/src/net/http/client.go", "")
	p = &places{} // built without modules
	f("main.main", "/src/main.go", "main.go:7 main")
	f("example.com/agent/core.Run", "/src/core/run.go", "example.com/agent/core/run.go:7 Run")
	f("github.com/openai/openai-go.New", "/src/vendor/github.com/openai/openai-go/chat.go", "")
	f("net/http.(*Client).Do", "/usr/local/go/src/net/http/client.go", "")
	f(own+".(*Hook).begin", "/src/exchange.go", "")
}

// deep calls f below n frames of the agent.
func deep(n int, f func() string) string {
	if n == 0 {
		return f()
	}
	return deep(n-1, f)
}

// The place of a call is found below frames of others, without an allocation if they are known.
func TestCaller(t *testing.T) {
	p := agentCode()
	if p.main == "" {
		t.Fatal("no build information")
	}
	got := p.caller()
	if !regexp.MustCompile(`^code_test\.go:\d+ TestCaller$`).MatchString(got) {
		t.Errorf("the call is at %q", got)
	}
	if n := testing.AllocsPerRun(100, func() { p.caller() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	// Frames of others: a module whose packages are not those of the test.
	others := &places{main: "testing"}
	others.known.Store(new(map[uintptr]string))
	for _, frames := range []int{1, nearFrames - 3, nearFrames - 2, nearFrames - 1, nearFrames, 100} {
		if got := deep(frames, others.caller); !regexp.MustCompile(`^testing\.go:\d+ tRunner$`).MatchString(got) {
			t.Errorf("below %d frames the call is at %q", frames, got)
		}
	}
	must.Equal(t, deep(maxFrames+nearFrames, others.caller), "", "place of the call below too many frames")
}

// BenchmarkCaller measures the search below 20 frames, as of SDKs.
func BenchmarkCaller(b *testing.B) {
	p := &places{main: "testing"}
	p.known.Store(new(map[uintptr]string))
	deep(20, func() string {
		b.ReportAllocs()
		for b.Loop() {
			p.caller()
		}
		return ""
	})
}

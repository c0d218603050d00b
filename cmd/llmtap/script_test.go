package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/demo"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	chdb.RunChild()
	// The agents of the demo, and the servers that tests run as processes, are this binary again.
	if len(os.Args) > 1 && (os.Args[1] == demo.AgentsCommand || os.Args[1] == "up" || os.Args[1] == "mcp") {
		go exitWithParent()
		main()
	}
	if len(os.Args) > 1 && (os.Args[1] == runProgramCommand.Name || os.Args[1] == recordCommand.Name || os.Args[1] == lintCommand.Name) {
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == ackingCommand {
		go exitWithParent()
		os.Exit(ackingMain())
	}
	if len(os.Args) > 1 && os.Args[1] == natsCommand {
		go exitWithParent()
		os.Exit(natsMain())
	}
	slowtest.Waits()
	testscript.Main(m, map[string]func(){"llmtap": main})
}

// exitWithParent ends this process after the test that started it: a test that times out ends without its cleanups.
func exitWithParent() {
	for parent := os.Getppid(); os.Getppid() == parent; {
		time.Sleep(time.Second)
	}
	os.Exit(1)
}

// Every user-visible behaviour of the command line is one script in testdata/script.
func TestScript(t *testing.T) {
	cache := must.Get(os.UserCacheDir())(t)
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			// The scripts' HOME is empty; the embedded ClickHouse is in the real cache.
			e.Setenv("XDG_CACHE_HOME", cache)
			return nil
		},
	})
}

// The documented test for pytest runs with the real pytest.
func TestPytest(t *testing.T) {
	slowtest.Skip(t)
	python := pythontest.Interpreter(t, "pytest>=8,<10")
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "pytest"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PYTHON", python)
			return os.WriteFile(filepath.Join(e.WorkDir, "test_history.py"), []byte(source(t, "cmd/llmtap/testdata/test_history.py")), 0o600)
		},
	})
}

package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmtap/llmtap/sinks/chdb"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	chdb.RunChild()
	if len(os.Args) > 1 && os.Args[1] == agentsCommand { // the demo's second process is this binary again
		os.Exit(report(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv), os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		"llmtap": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(report(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv), os.Stderr))
		},
	})
}

// Every user-visible behaviour of the command line is one script in testdata/script.
func TestScript(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
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

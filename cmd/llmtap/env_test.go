package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// variables returns the names in the first group of pattern in the source files below dir, except those of tests.
func variables(t *testing.T, dir, pattern string) map[string]bool {
	t.Helper()
	names, re := map[string]bool{}, regexp.MustCompile(pattern)
	err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
		source := strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".py") || strings.HasSuffix(path, ".ts")
		if err != nil || d.IsDir() || !source || strings.Contains(filepath.Base(path), "test") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range re.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	must.Do(t, err)
	return names
}

// The collector and its commands read no variable of the hooks: both may run in the same environment. A collector that read
// the hooks' LLMTAP_NATS_URL would not start its embedded server.
func TestEnvironmentOfHooks(t *testing.T) {
	for name := range variables(t, "ingest/sdk/python/llmtap", `\b(LLMTAP_[A-Z_]+)\b`) {
		if !slices.Contains(event.HookEnvironment, name) {
			t.Errorf("%s of the Python hook is not in event.HookEnvironment", name)
		}
	}
	read := map[string]bool{}
	for _, dir := range []string{"cmd", "sinks", "alerts", "analyzer", "dashboards"} {
		for name := range variables(t, dir, `etenv\("(LLMTAP_\w+)"\)`) {
			read[name] = true
		}
		for name := range variables(t, dir, `etenv\((event\.Env\w+)\)`) {
			must.Equal(t, name, "event.EnvShapeKey", "%s reads", dir)
		}
	}
	// The help of a command reads the variables of its flags, and config those of all keys.
	getenv := func(name string) string {
		read[name] = true
		return ""
	}
	var visit func(prefix []string, c *command.Command)
	visit = func(prefix []string, c *command.Command) {
		for _, sub := range c.Commands {
			words := append(slices.Clip(prefix), sub.Name[strings.LastIndexByte(sub.Name, ' ')+1:])
			if visit(words, sub); sub.Run != nil && !sub.Hidden {
				_ = run(t.Context(), append(words, "--help"), nil, io.Discard, io.Discard, getenv) // the help is an error
			}
		}
	}
	visit(nil, llmtap)
	must.Do(t, run(t.Context(), []string{"config"}, nil, io.Discard, io.Discard, getenv))
	for _, name := range []string{"LLMTAP_COLLECTOR_NATS_URL", "LLMTAP_URL", "LLMTAP_CONFIG", "LLMTAP_SLACK_TOKEN", "LLMTAP_FORMAT"} {
		if !read[name] {
			t.Errorf("no command reads %s", name)
		}
	}
	// Hooks and a collector that stores shapes hash with the same key, so that equal texts have equal hashes.
	for _, name := range event.HookEnvironment {
		if read[name] && name != event.EnvShapeKey {
			t.Errorf("%s is read by hooks and by the collector or a command", name)
		}
	}
}

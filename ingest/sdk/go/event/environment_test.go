package event_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The hooks read the variables of HookEnvironment and no others with these prefixes.
func TestHookEnvironment(t *testing.T) {
	quoted := regexp.MustCompile(`"((?:LLMTAP|OTEL)_[A-Z_]+)"`)
	want := slices.Sorted(slices.Values(event.HookEnvironment))
	for _, files := range []string{"../*.go", "../../python/llmtap/*.py"} {
		paths := must.Get(filepath.Glob(files))(t)
		if len(paths) == 0 {
			t.Skip("the hooks are not part of this module")
		}
		var names []string
		for _, path := range paths {
			source := must.Get(os.ReadFile(path))(t)
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range quoted.FindAllSubmatch(source, -1) {
				names = append(names, string(m[1]))
			}
		}
		slices.Sort(names)
		switch names = slices.Compact(names); {
		case strings.HasSuffix(files, ".go") && len(names) > 0:
			t.Errorf("%s: use the constants of package event for %v", files, names)
		case strings.HasSuffix(files, ".py") && !slices.Equal(names, want):
			t.Errorf("%s: reads %v, want %v", files, names, want)
		}
	}
}

package libraries

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
)

// openPython installs a Python package and what its tests need, and unpacks its source archive.
func openPython(t testing.TB, l *library) suite {
	t.Helper()
	python := pythontest.Interpreter(t, append([]string{"nats-py>=2.6,<3", "pytest>=8", "pytest-timeout", l.source + "==" + l.version}, l.requires...)...)
	cache := must.Get(os.UserCacheDir())(t)
	archives := filepath.Join(cache, "llmtap", "source-"+l.name+"-"+l.version)
	pattern := filepath.Join(archives, "*.tar.gz")
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		download(t, python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", l.name, "--dest", archives, l.name+"=="+l.version)
		found, _ = filepath.Glob(pattern)
	}
	if len(found) != 1 {
		t.Fatalf("%s: %q", pattern, found)
	}
	dir, hook := t.TempDir(), absolute(t, "../python")
	command(t, dir, nil, "tar", "--strip-components=1", "-xzf", found[0])
	if err := os.RemoveAll(filepath.Join(dir, l.name)); err != nil { // the tests import the installed package, which is compiled
		t.Fatal(err)
	}
	outcomes := filepath.Join(t.TempDir(), "outcomes.json")
	base := slices.Concat([]string{"-m", "pytest"}, l.common,
		[]string{"-p", "llmtap_outcomes", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout=120", "--tb=short", "-q"})
	// No test looks for credentials of a cloud, or for the recorded responses of google-genai, which are not published.
	env := []string{
		"NO_GCE_CHECK=true", "GCE_METADATA_HOST=127.0.0.1:1", "AWS_EC2_METADATA_DISABLED=true", "GOOGLE_GENAI_REPLAYS_DIRECTORY=" + dir,
		"PYTHONPATH=" + absolute(t, "testdata") + ":" + hook, "PYTHONDONTWRITEBYTECODE=1", "LLMTAP_TEST_OUTCOMES=" + outcomes,
	}
	return suite{
		run: func(more, args []string) (r run) {
			r.output, r.seconds = command(t, dir, slices.Concat(more, env), python, slices.Concat(base, args)...)
			data, err := os.ReadFile(outcomes)
			if err == nil {
				err = json.Unmarshal(data, &r.tests)
			}
			must.Do(t, err, r.output)
			return r
		},
		alone: func(test string) []string { return []string{test} },
	}
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	return must.Get(filepath.Abs(path))(t)
}

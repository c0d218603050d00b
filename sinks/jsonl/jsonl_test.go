package jsonl_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/jsonl"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

func TestContract(t *testing.T) {
	var paths sync.Map // sink -> path
	open := func(t *testing.T) sinks.Sink {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		s, err := jsonl.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		paths.Store(s, path)
		return s
	}
	count := func(t *testing.T, s sinks.Sink) map[string]uint64 {
		path, _ := paths.Load(s)
		b := read(t, path.(string))
		counts := map[string]uint64{}
		for _, table := range sinks.Tables {
			counts[table.Name()] = uint64(table.Len(b))
		}
		return counts
	}
	sinktest.Run(t, open, count)
}

func read(t *testing.T, path string) *sinks.Batch {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := jsonl.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	for _, b := range []*sinks.Batch{sinktest.Later(sinktest.Rows(0, 3)), sinktest.Rows(0, 3)} { // newer versions first
		s, err := jsonl.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(sinktest.Later(sinktest.Rows(0, 3)), read(t, path), cmpopts.IgnoreUnexported(sinks.Batch{})); d != "" {
		t.Errorf("rows read (-want +got):\n%s", d)
	}
}

func TestReadBadLines(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := jsonl.Read(strings.NewReader(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Read(%q): %q, want %q", text, got, want)
		}
	}
	f("", "")
	// A crash truncated the last line.
	f(`{"table":"exchanges","row":{"ID":"a"}}`+"\n"+`{"table":"exch`, "")
	f("{}\n", `decode line 1: unknown table ""`)
	f(`{"table":"alerts","row":{"ID":7}}`+"\n", "decode line 1: json: cannot unmarshal number into Go struct field Alert.ID of type string")
}

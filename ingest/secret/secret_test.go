package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	f := func(value, content, want, wantErr string) {
		t.Helper()
		file := ""
		if content != "" {
			file = filepath.Join(dir, "token")
			must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		}
		got, err := Read(value, "token_file", file)
		if got != want || (err != nil) != (wantErr != "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("Read(%q, %q) = %q, %v; want %q, %q", value, content, got, err, want, wantErr)
		}
	}
	f("", "", "", "")
	f("value", "", "value", "")
	f("value", " from file\n", "from file", "")
	f("value", " \n", "", "is empty")
	if _, err := Read("value", "token_file", filepath.Join(dir, "missing")); err == nil || !strings.HasPrefix(err.Error(), "read token_file: ") {
		t.Errorf("missing file: %v", err)
	}
}

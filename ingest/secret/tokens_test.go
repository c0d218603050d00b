package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTokens(t *testing.T) {
	token, hash := NewToken()
	if len(token) < 40 || !strings.HasPrefix(hash, hashPrefix) || strings.Contains(hash, token) {
		t.Fatalf("%q, %q", token, hash)
	}
	f := func(value, content string, accepted, refused []string, plain string) {
		t.Helper()
		file := ""
		if content != "" {
			file = filepath.Join(t.TempDir(), "tokens")
			must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		}
		tokens := must.Get(ReadTokens(value, "http.token_file", file))(t)
		if tokens.Plain() != plain || tokens.Required() != (len(accepted) > 0) {
			t.Errorf("%q, %q: plain %q, required %v", value, content, tokens.Plain(), tokens.Required())
		}
		for _, s := range accepted {
			if !tokens.Accept(s) {
				t.Errorf("%q, %q: %q is refused", value, content, s)
			}
		}
		for _, s := range append(refused, "") {
			if tokens.Accept(s) {
				t.Errorf("%q, %q: %q is accepted", value, content, s)
			}
		}
	}
	f("", "", nil, []string{"a"}, "")
	f("a", "", []string{"a"}, []string{"b", "a "}, "a")
	f("a b", "", []string{"a", "b"}, []string{"a b"}, "a")
	f(hash, "", []string{token}, []string{hash}, "")
	f("ignored", "# the old one\nold\n\n  "+hash+"  \n", []string{"old", token}, []string{"ignored", hash, "# the old one"}, "old")

	for _, bad := range []string{"sha256:", "sha256:abc", "sha256:" + strings.Repeat("0", 66), "sha256:" + strings.Repeat("g", 64)} {
		if _, err := ReadTokens(bad, "http.token_file", ""); err == nil || !strings.HasPrefix(err.Error(), "http.token: ") || len(bad) > 7 && strings.Contains(err.Error(), bad[7:]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, []byte("# nothing\n"), 0o600))
	must.Fail(t, must.Err(ReadTokens("", "http.token_file", empty)), "is empty", "empty file")
}

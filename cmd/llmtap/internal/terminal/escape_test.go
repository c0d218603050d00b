package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestEscape(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		must.Equal(t, Escape(s), want, "Escape(%q)", s)
		var b bytes.Buffer
		for w := NewWriter(&b); s != ""; s = s[1:] { // characters arrive in parts
			if n, err := w.Write([]byte(s[:1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		must.Equal(t, b.String(), want, "written")
	}
	f("", "")
	f("a\tb\nc", "a\tb\nc")
	f("é 名前 👩‍👩‍👧", "é 名前 👩‍👩‍👧")
	f("\x1b]0;x\a \r\b\x7f\x00", `\u001b]0;x\u0007 \u000d\u0008\u007f\u0000`)
	f("\u009b2J \u202eabc\u2066\u200e\u061c", `\u009b2J \u202eabc\u2066\u200e\u061c`)
	f("tag \U000e0041", `tag \udb40\udc41`)
	f("\x9b2J\xe2\x80x\xff", "\uFFFD2J\uFFFD\uFFFDx\uFFFD")
	f("\x1b[31mred", `\u001b[31mred`)
}

func TestWriterColors(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	s := NewStyle(w, func(string) string { return "" })
	s.Color = true
	text := s.Red("no") + "\x1b[31mfake\x1b" + strings.Repeat("A", len(colorStart)-2) + "[31m"
	must.Equal(t, Columns(s.Red("no")), 2, "columns of a text in a color")
	want := "\x1b[31mno\x1b[0m" + Escape("\x1b[31mfake\x1b") + strings.Repeat("A", len(colorStart)-2) + "[31m"
	for n := range len(text) { // in two parts
		b.Reset()
		for _, part := range []string{text[:n], text[n:]} {
			must.Get(w.Write([]byte(part)))(t)
		}
		if b.String() != want {
			t.Fatalf("%q, want %q", &b, want)
		}
	}
}

// Whatever is written, the output has no hidden character, and JSON keeps its value.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[2J\x7f", "\u202e\u009b")
	f.Add("\xe2\x80", "\xae\xff\U000e0041")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out, encoded bytes.Buffer
		w := NewWriter(&out)
		for _, s := range []string{a, b, "."} {
			must.Get(w.Write([]byte(s)))(t)
		}
		if got := out.String(); got != Escape(a+b+".") {
			t.Errorf("Write %q, Escape %q", got, Escape(a+b+"."))
		} else if !utf8.ValidString(got) || strings.IndexFunc(got, hidden) >= 0 {
			t.Errorf("hidden characters are left: %q", got)
		}
		enc := json.NewEncoder(NewWriter(&encoded))
		enc.SetEscapeHTML(false)
		must.Do(t, enc.Encode(a))
		var back string
		if err := json.Unmarshal(encoded.Bytes(), &back); err != nil || utf8.ValidString(a) && back != a {
			t.Errorf("%v: %q became %q in %s", err, a, back, &encoded)
		}
	})
}

func TestExact(t *testing.T) {
	var b bytes.Buffer
	if got := Exact(NewWriter(&b)); got != &b {
		t.Errorf("not a terminal: %T", got)
	}
	if got := Exact(&b); got != &b {
		t.Errorf("no Writer: %T", got)
	}
}

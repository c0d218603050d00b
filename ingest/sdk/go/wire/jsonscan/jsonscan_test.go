package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The quote is found at every offset, behind an even number of backslashes only.
func TestStringEnd(t *testing.T) {
	for n := range 40 {
		for slashes := range 5 {
			text := strings.Repeat("a", n) + strings.Repeat(`\`, slashes)
			want := len(text)
			if slashes%2 == 1 {
				text += `"b`
				want += 2
			}
			must.Equal(t, StringEnd([]byte(text+`",`+strings.Repeat(" ", 20)), 0), want, "%s", text)
			if got := StringEnd([]byte(text), 0); got >= 0 {
				t.Errorf("%s: an end at %d without a quote", text, got)
			}
		}
	}
}

func TestEnds(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		must.Equal(t, ContainerEnd([]byte(text), 1), want, "ContainerEnd(%q)", text)
	}
	f(`{}`, 2)
	f(`[{"a":"]}\""},[]] `, 17)
	f(`{"a":[1,2}`, -1)
	f(`["a]`, -1)

	number := func(text string, want int) {
		t.Helper()
		if end, ok := NumberEnd([]byte(text), 0); !ok || end != want {
			t.Errorf("NumberEnd(%q) = %d, %v, want %d", text, end, ok, want)
		}
	}
	number("0", 1)
	number("01", 1)
	number("-1.5e+10,", 8)
	for _, text := range []string{"", "-", "a", "1.", "1e", "-e1"} {
		if end, ok := NumberEnd([]byte(text), 0); ok {
			t.Errorf("NumberEnd(%q) = %d", text, end)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(`a\"b\\c\/\n\t\r\b\f\u00e9\ud83d\ude00\ud800\u12`)
	f.Fuzz(func(t *testing.T, raw string) {
		got := string(AppendText([]byte("x"), []byte(raw)))[1:]
		var want string
		if !utf8.ValidString(raw) || json.Unmarshal([]byte(`"`+raw+`"`), &want) != nil {
			return // encoding/json replaces bad UTF-8 and rejects bad escapes
		}
		must.Equal(t, got, want, "%q", raw)
		must.Equal(t, StringEnd([]byte(raw+`"`), 0), len(raw), "%q ends at", raw)
	})
}

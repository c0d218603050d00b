package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestValueEnd(t *testing.T) {
	f := func(text string, end int, ok bool) {
		t.Helper()
		if gotEnd, gotOK := ValueEnd([]byte(text), 0); gotEnd != end || gotOK != ok {
			t.Errorf("ValueEnd(%q) = %d, %v, want %d, %v", text, gotEnd, gotOK, end, ok)
		}
	}
	f(`{"a":[1,{}],"b":"c"} {`, 20, true)
	f(`null,`, 4, true)
	// A text that ends inside its value.
	for _, text := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, "[", "[1", "[1,", `"`, `"\`, `"\u12`, "tr", "-", "1.", "1e"} {
		f(text, len(text), false)
	}
	// An invalid byte.
	f(`{"a":1,}`, 7, false)
	f(`[1 2]`, 3, false)
	f(`[1}`, 2, false)
	f(`{1:2}`, 1, false)
	f(`{"a" 1}`, 5, false)
	f("\"a\nb\"", 2, false)
	f(`"\x"`, 2, false)
	f(`"\u12g4"`, 5, false)
	f(`nulL`, 3, false)
}

func FuzzValid(f *testing.F) {
	for _, text := range []string{
		` {"a":[1,-2.5e+3,true,false,null,"\u00e9\n"],"b":{}} `, "[]", "[[],{}]", `{"a":1,}`, "01", "-", `"` + strings.Repeat("a", 20) + "\x1f\"", "nul", `{"a":1}}`,
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), "\"\xff\x80\"", `"\ud800"`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		must.Equal(t, Valid([]byte(text)), json.Valid([]byte(text)), "Valid(%q)", text)
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat(`How much is \"it\", and why so?\n`, 10)+`","n":1},`, 50) + `{}]}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !Valid(text) {
			b.Fatal("invalid")
		}
	}
}

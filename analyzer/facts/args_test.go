package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

func TestCheckArgs(t *testing.T) {
	f := func(text string, want Args) {
		t.Helper()
		raw := string(appendQuoted(nil, []byte(text)))
		must.Equal(t, checkArgs([]byte(raw)), want, "%q: verdict", text)
		// The same text with every character escaped.
		if got := checkArgs([]byte(escapeAll(text))); got != want && !strings.HasPrefix(text, "~") {
			t.Errorf("%q escaped: verdict %d, want %d", text, got, want)
		}
	}
	f(`{}`, ArgsObject)
	f(" {\"a\" : [1, -2.5e-3, true, {\"b\":\"\\n\\u00e9\\\\ \"}]}\n", ArgsObject)
	f(``, ArgsEmpty)
	f(" \n", ArgsEmpty)
	f(`[]`, ArgsNotObject)
	f(`"{}"`, ArgsNotObject)
	f(`null`, ArgsNotObject)
	f(`12`, ArgsNotObject)
	f(`{"path": "a.go", "text": "func`, ArgsTruncated)
	f(`{"a":"\u00`, ArgsTruncated)
	f(`{`, ArgsTruncated)
	f(`{"a":1`, ArgsTruncated)
	f(`fals`, ArgsTruncated)
	f(`{"a":1}{"b":2}`, ArgsMultiple)
	f("{}\n{}", ArgsMultiple)
	f(`1 2 3`, ArgsMultiple)
	f(`{'a':1}`, ArgsBad)
	f(`{"a":1,}`, ArgsBad)
	f(`{"a":NaN}`, ArgsBad)
	f(`{"a":1]`, ArgsBad)
	f(`{}}`, ArgsBad)
	f(`{} {"a`, ArgsBad)
	f("{\"a\":\"\n\"}", ArgsBad)
	f(`{"a":"\x"}`, ArgsBad)
	f(`01`, ArgsBad)
	f(`ls -l`, ArgsBad)
	// Shapes of arguments that do not parse.
	f(`~12:0123456789abcdef:bad`, ArgsBad)
	f(`~12:0123456789abcdef:multi`, ArgsMultiple)
	f(`~0:0123456789abcdef:bad`, ArgsEmpty)
	// Deep nesting: checked up to the limit.
	f(strings.Repeat(`[`, maxArgsDepth)+strings.Repeat(`]`, maxArgsDepth), ArgsNotObject)
	f(strings.Repeat(`{"a":`, maxArgsDepth-1)+`{}`+strings.Repeat(`}`, maxArgsDepth-1), ArgsObject)
	f(strings.Repeat(`[`, maxArgsDepth+1), ArgsUnknown)
	// A backslash that starts no escape: the body is broken, the arguments may be valid.
	must.Equal(t, checkArgs([]byte(`{\q}`)), ArgsUnknown, "broken escape: verdict")
}

// escapeAll escapes every character of text as \uXXXX.
func escapeAll(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// checkArgsSame compares checkArgs with encoding/json on the unescaped text, in three forms of escaping.
func checkArgsSame(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.Count(text, "{")+strings.Count(text, "[") > maxArgsDepth || strings.HasPrefix(text, "~") {
		return
	}
	want := refArgs(text)
	quoted, err := json.Marshal(text) // also escapes <, > and &
	must.Do(t, err)
	for _, raw := range []string{string(quoted[1 : len(quoted)-1]), string(appendQuoted(nil, []byte(text))), escapeAll(text)} {
		if got := checkArgs([]byte(raw)); got != want {
			t.Fatalf("%q escaped as %q: verdict %d, want %d", text, raw, got, want)
		}
	}
}

func TestCheckArgsMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		checkArgsSame(t, string(mutate(r, argsSeeds[r.IntN(len(argsSeeds))])))
	}
}

func FuzzArgs(f *testing.F) {
	for _, seed := range argsSeeds {
		f.Add(seed)
	}
	f.Fuzz(checkArgsSame)
}

func TestAppendText(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		must.Equal(t, string(jsonscan.AppendText(nil, []byte(raw))), want, "%q", raw)
	}
	f(``, ``)
	f(`plain`, `plain`)
	f(`\u003cb\u003e\/\"\\\n\t\r\b\f`, "<b>/\"\\\n\t\r\b\f")
	f(`\ud83d\ude00`, "😀")
	f(`\ud83d`, "\ufffd")
	f(`\ud83dx\ude00`, "\ufffdx\ufffd")
	f(`\ud83d\u0041`, "\ufffdA")
	f(`\u4F60`, "你")
	// Not JSON escapes: unchanged.
	f(`\q\u12`, `\q\u12`)
	f(`\`, `\`)
}

// refArgs is the reference implementation of checkArgs, for unescaped text.
func refArgs(text string) Args {
	if strings.HasPrefix(text, "~") {
		return checkShapedArgs([]byte(text))
	}
	d := json.NewDecoder(strings.NewReader(text))
	verdict := ArgsUnknown
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF) && verdict == ArgsUnknown:
			return ArgsEmpty
		case errors.Is(err, io.EOF):
			return verdict
		case errors.Is(err, io.ErrUnexpectedEOF) && verdict == ArgsUnknown:
			return ArgsTruncated
		case err != nil:
			return ArgsBad
		case verdict != ArgsUnknown:
			verdict = ArgsMultiple
		case v[0] == '{':
			verdict = ArgsObject
		default:
			verdict = ArgsNotObject
		}
		rest := text[d.InputOffset():]
		if strings.IndexByte(`{["`, v[0]) < 0 && rest != "" && strings.TrimLeft(rest[:1], " \n\t\r") != "" {
			return ArgsBad // 01 is not two numbers
		}
	}
}

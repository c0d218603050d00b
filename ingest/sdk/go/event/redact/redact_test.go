package redact

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// spec is the content of ingest/sdk/testdata/redact.json, the specification for hooks in all languages.
type spec struct {
	Format []string
	Keys   map[string]int
	IDs    map[string]int
	Names  map[string][]string
	Plain  []string
	Cases  []struct{ About, In, Out string }
}

func readSpec(t testing.TB) *spec {
	t.Helper()
	b := must.Get(os.ReadFile("../../../testdata/redact.json"))(t)
	s := new(spec)
	if err := json.Unmarshal(b, s); err != nil || len(s.Cases) < 40 {
		t.Fatalf("redact.json: %d cases, %v", len(s.Cases), err)
	}
	return s
}

func TestCases(t *testing.T) {
	for _, c := range readSpec(t).Cases {
		once := Append(nil, []byte(c.In))
		if string(once) != c.Out {
			t.Errorf("%s:\n got %s\nwant %s", c.About, once, c.Out)
		}
		if again := Append(nil, once); !bytes.Equal(again, once) {
			t.Errorf("%s, masked twice:\n got %s\nwant %s", c.About, again, once)
		}
	}
}

// The specification and the code have the same words.
func TestSpec(t *testing.T) {
	s := readSpec(t)
	keys, ids := map[string]int{}, map[string]int{}
	for _, p := range prefixes {
		if p.id {
			ids[p.text] = p.min
		} else {
			keys[p.text] = p.min
		}
	}
	if !maps.Equal(s.Keys, keys) || !maps.Equal(s.IDs, ids) || !slices.Equal(s.Plain, plain) {
		t.Errorf("keys %v\nids %v\nplain %v", s.Keys, s.IDs, s.Plain)
	}
	hints := map[hint]string{
		hintScheme: "scheme", hintName: "name", hintQuery: "query", hintPassword: "password", hintCookie: "cookie", hintProvided: "provided",
	}
	got := make(map[string][]string)
	for _, n := range names {
		text := n.text
		if n.suffix {
			text += "$"
		}
		got[hints[n.hint]] = append(got[hints[n.hint]], text)
	}
	for _, lists := range []map[string][]string{s.Names, got} {
		for _, texts := range lists {
			slices.Sort(texts)
		}
	}
	if !maps.EqualFunc(s.Names, got, slices.Equal) {
		t.Errorf("names %v\n want %v", s.Names, got)
	}
}

// Append recognizes every prefix in any case.
func TestPrefixes(t *testing.T) {
	for _, p := range prefixes {
		for _, text := range []string{p.text, strings.ToUpper(p.text)} {
			secret := text + "1" + strings.Repeat("a", p.min-1)
			must.Equal(t, string(Append(nil, []byte("<"+secret+">"))), "<"+text+"***>", "%s became", secret)
			if short := "<" + secret[:len(secret)-1] + ">"; string(Append(nil, []byte(short))) != short {
				t.Errorf("%s was masked", short)
			}
		}
	}
}

func TestTruncate(t *testing.T) {
	f := func(text string, limit int, want string) {
		t.Helper()
		must.Equal(t, string(Truncate([]byte(text), limit)), want, "Truncate(%q, %d)", text, limit)
	}
	f("", 4, "")
	f("bad sk-abc", 10, "bad sk-abc")
	f("bad sk-abc", 9, "bad ")
	f("bad sk-abc", 4, "bad ")
	f("bad sk-abc", 3, "bad")
	f("bad sk-abc", 0, "")
	f(`"https://bob:pw@host"`, 12, `"`)
	f("无效：call_1", 12, "无效：")
	if got := len(Truncate(bytes.Repeat([]byte("x"), 8192), 4096)); got != 4096 {
		t.Errorf("a long word is truncated to %d bytes", got)
	}
}

// hostile returns texts on which a naive implementation takes quadratic time.
func hostile(n int) map[string]string {
	m := make(map[string]string)
	for _, s := range []string{
		"a", "+a", "a@", "+", "://", "://a", `:\/\/a`, `\`, `\u00`, "%", "%2", "key=", "key:a-", "api key ", "api_key: ", "basic realm=", "basic%20realm=",
		"basic+", "bearer bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----END ", "cookie:", "cookie:\"", "arn:aws", "arn:aws:sts::",
		"sk-", "sk-_", "password: ", "key provided ", "/a", "token=/", "***", "user_a.", ".", "@.", "%3D",
	} {
		m[s] = strings.Repeat(s, n/len(s)+1)[:n]
	}
	return m
}

func TestHostile(t *testing.T) {
	for name, text := range hostile(1 << 18) {
		start := time.Now()
		got := Append(nil, []byte(text))
		// A quadratic implementation takes minutes.
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q takes %v", name, took)
		}
		if len(got) > 4*len(text) {
			t.Errorf("%q grows to %d bytes", name, len(got))
		}
	}
}

func TestNoAllocation(t *testing.T) {
	s := readSpec(t)
	var text []byte
	for _, c := range s.Cases {
		text = append(append(text, c.In...), '\n')
	}
	dst := make([]byte, 0, 2*len(text))
	if n := testing.AllocsPerRun(20, func() { dst = Append(dst[:0], text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAppend checks that masking is idempotent and keeps JSON valid.
func FuzzAppend(f *testing.F) {
	for _, c := range readSpec(f).Cases {
		f.Add([]byte(c.In), 20)
	}
	for _, text := range hostile(64) {
		f.Add([]byte(text), 32)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		before := bytes.Clone(text)
		once := Append(nil, text)
		if again := Append(nil, once); !bytes.Equal(again, once) {
			t.Errorf("%q\nbecomes %q\n  then %q", text, once, again)
		}
		if got := Append([]byte("x"), text); !bytes.Equal(text, before) || !bytes.Equal(got[1:], once) {
			t.Errorf("Append changes %q", before)
		}
		if json.Valid(text) && !json.Valid(once) {
			t.Errorf("%s\nbecomes %s", text, once)
		}
		if limit = max(limit, 0) % 4096; len(Truncate(text, limit)) > max(limit, 0) {
			t.Errorf("Truncate(%q, %d) is longer", text, limit)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	s := readSpec(b)
	var errors, keys []byte
	for _, c := range s.Cases {
		if c.In == c.Out {
			errors = append(append(errors, c.In...), '\n')
		} else {
			keys = append(append(keys, c.In...), '\n')
		}
	}
	for name, text := range map[string][]byte{"plain": errors, "secrets": keys} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			dst := make([]byte, 0, 2*len(text))
			for b.Loop() {
				dst = Append(dst[:0], text)
			}
		})
	}
}

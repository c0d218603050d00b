package event

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// lines formats a header for the fuzzer as lines "key:value".
func lines(h Header) string {
	var b strings.Builder
	for k, v := range h {
		b.WriteString(k + ":" + v[0] + "\n")
	}
	return b.String()
}

func parseLines(s string) Header {
	h := Header{}
	for l := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(l, "\n"), ":"); ok {
			h[k] = append(h[k], v)
		}
	}
	return h
}

// A decoded event encodes to an equal event, except for truncated text, and encoding is stable.
func FuzzDecode(f *testing.F) {
	for _, e := range full() {
		f.Add(e.Subject(), lines(e.Encode()), e.Body)
	}
	f.Add("llmtap.v1.request.s.00", "Llmtap-Exchange:x\nLlmtap-Time:2026-11-21T03:04:05Z\n", []byte(nil))
	f.Add("llmtap.v1.response.s.ff", "Llmtap-Exchange:%\nLlmtap-Time:1970-01-01T00:00:00+01:00\nLlmtap-Status:0\nLlmtap-Duration-Ms:0x1p-2\n", []byte("a"))
	f.Fuzz(func(t *testing.T, subject, headers string, body []byte) {
		first, err := Decode(subject, parseLines(headers), body)
		if err != nil {
			return
		}
		if !bytes.Equal(first.Body, body) || len(body) > 0 && &first.Body[0] != &body[0] {
			t.Fatal("the body was copied or changed")
		}
		second, err := Decode(first.Subject(), first.Encode(), body)
		must.Do(t, err, "decode an encoded event")
		third, err := Decode(second.Subject(), second.Encode(), body)
		must.Do(t, err, "decode a re-encoded event")
		if !reflect.DeepEqual(third, second) {
			t.Fatalf("encoding is not stable: %+v, then %+v", second, third)
		}
		equalExceptTruncated(t, reflect.ValueOf(*first), reflect.ValueOf(*second))
	})
}

func equalExceptTruncated(t *testing.T, a, b reflect.Value) {
	t.Helper()
	for i := range a.NumField() {
		x, y, name := a.Field(i), b.Field(i), a.Type().Field(i).Name
		switch {
		case name == "Labels":
			equalExceptTruncated(t, x, y)
		case name == "Attrs":
			for _, k := range x.MapKeys() {
				if !y.MapIndex(k).IsValid() || !equalOrTruncated(x.MapIndex(k).String(), y.MapIndex(k).String()) {
					t.Errorf("attribute %v changed", k)
				}
			}
		case x.Kind() == reflect.String:
			if !equalOrTruncated(x.String(), y.String()) {
				t.Errorf("%s: %q became %q", name, x, y)
			}
		default:
			if !reflect.DeepEqual(x.Interface(), y.Interface()) {
				t.Errorf("%s: %v became %v", name, x, y)
			}
		}
	}
}

// equalOrTruncated reports whether b equals a or is a prefix of an a that is too long for a header.
func equalOrTruncated(a, b string) bool {
	return a == b || strings.HasPrefix(a, b) && 3*len(a) > MaxHeaderValue
}

// An escaped value is short, printable, has no outer spaces, and decodes to the text or a prefix of it.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", " ", "a b", "100%", "规划器", "\xff\x00", strings.Repeat("规", 200), strings.Repeat(" ", 600), "%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := escape(s)
		if len(v) > MaxHeaderValue || strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("escape(%q) = %q", s, v)
		}
		back := unescape(v)
		if !equalOrTruncated(s, back) {
			t.Fatalf("%q decodes to %q", s, back)
		}
		if utf8.ValidString(s) && !utf8.ValidString(back) {
			t.Fatalf("%q was truncated inside a character: %q", s, back)
		}
		unescape(s)
	})
}

func BenchmarkEncode(b *testing.B) {
	e := benchEvent()
	b.ReportAllocs()
	for b.Loop() {
		e.Encode()
	}
}

func BenchmarkDecode(b *testing.B) {
	e := benchEvent()
	subject, h := e.Subject(), e.Encode()
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, must.Err(Decode(subject, h, e.Body)))
	}
}

func BenchmarkSubject(b *testing.B) {
	e := benchEvent()
	b.ReportAllocs()
	for b.Loop() {
		e.Subject()
	}
}

// benchEvent returns a typical response: plain labels, no attributes, one part.
func benchEvent() *Event {
	e := full()[Response]
	e.Labels.Service, e.Labels.Environment, e.Labels.Stage, e.Labels.Conversation, e.Error = "checkout", "prod", "Planner", "c-1", ""
	e.Attrs, e.Part, e.Parts, e.Degraded = nil, 1, 1, false
	return e
}

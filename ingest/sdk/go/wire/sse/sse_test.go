package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// read returns the events of a body as name=data.
func read(body string) []string {
	var got []string
	for e := range Events([]byte(body)) {
		got = append(got, string(e.Name)+"="+string(e.Data))
	}
	return got
}

func TestEvents(t *testing.T) {
	f := func(body string, want ...string) {
		t.Helper()
		if got := read(body); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
	f("")
	f("\n\n")
	f("data: a\n\ndata: b\n\n", "=a", "=b")
	// The three line ends, and a last event without an empty line.
	f("data: a\r\n\r\ndata: b\r\n", "=a", "=b")
	f("data: a\r\rdata: b\r\r", "=a", "=b")
	f("data: a\r\n\ndata: b\n\r\ndata: c", "=a", "=b", "=c")
	// One space after the colon belongs to the field, more to the data.
	f("data:a\n\ndata:  b\n\ndata\n\n", "=a", "= b", "=")
	// Several data lines are one event.
	f("data: a\ndata: b\ndata: c\n\ndata: d\n\n", "=a\nb\nc", "=d")
	// Comments, other fields, names.
	f(": OPENROUTER PROCESSING\n\nid: 1\nretry: 5\nevent: error\ndata: x\n\ndata: y\n\n", "error=x", "=y")
	// An event without data is dropped, its name too.
	f("event: ping\n\ndata: a\n\n", "=a")
	f("\ufeffdata: a\n\n", "=a")
}

func TestEventsStop(t *testing.T) {
	for e := range Events([]byte("data: a\n\ndata: b\n\n")) {
		if string(e.Data) != "a" {
			t.Fatalf("event %q after the loop ended", e.Data)
		}
		break
	}
}

func TestEventsLeaveBody(t *testing.T) {
	body := []byte("data: a\ndata: b\n\ndata: c\ndata: d\n\n")
	before := bytes.Clone(body)
	for range Events(body) {
	}
	must.Equal(t, string(body), string(before), "body")
}

func TestIsStream(t *testing.T) {
	f := func(body string, want bool) {
		t.Helper()
		must.Equal(t, IsStream([]byte(body)), want, "%q", body)
	}
	f("data: {}", true)
	f("\r\n\nevent:x", true)
	f(": comment", true)
	f("\ufeffid: 1", true)
	f("", false)
	f("{\"data\": 1}", false)
	f("error: no", false)
	f("<html>", false)
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\r\ndata: b\n\rdata\n\nevent: x\rdata:\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		// All line ends are equivalent.
		plain := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body)
		if got, want := read(body), read(plain); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q as with line feeds", body, got, want)
		}
	})
}

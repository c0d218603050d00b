package shape

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

// makeFrame makes a frame with string headers.
func makeFrame(headers [][2]string, payload string) string {
	b := eventstream.Begin(nil)
	start := len(b)
	for _, kv := range headers {
		b = append(append(append(b, byte(len(kv[0]))), kv[0]...), 7) // the type of a string
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(kv[1]))), kv[1]...)
	}
	n := len(b) - start
	return string(eventstream.End(append(b, payload...), 0, n))
}

// frameLines makes a frame of each line "event payload"; "!" before the event makes it an exception.
func frameLines(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		event, payload, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		headers := [][2]string{{":event-type", event}, {":content-type", "application/json"}, {":message-type", "event"}, {"x-trace", "secret"}}
		if name, ok := strings.CutPrefix(event, "!"); ok {
			headers = [][2]string{{":exception-type", name}, {":content-type", "application/json"}, {":message-type", "exception"}}
		}
		b.WriteString(makeFrame(headers, payload))
	}
	return b.String()
}

// unframe is the inverse of frameLines. It checks every checksum and that no other header is kept.
func unframe(t testing.TB, s string) string {
	t.Helper()
	var out strings.Builder
	for b := []byte(s); len(b) > 0; {
		f, n, err := eventstream.Next(b)
		must.Do(t, err, string(b))
		for rest := f.Headers; len(rest) > 0; {
			h, ok := eventstream.NextHeader(rest)
			if !ok {
				t.Fatalf("no header: %q", rest)
			}
			switch string(h.Name) {
			case ":event-type":
				out.WriteString(string(h.Value) + " ")
			case ":exception-type":
				out.WriteString("!" + string(h.Value) + " ")
			case ":content-type", ":message-type":
			default:
				t.Errorf("header %s is kept", h.Name)
			}
			rest = rest[len(h.Raw):]
		}
		out.Write(f.Payload)
		out.WriteByte('\n')
		b = b[n:]
	}
	return out.String()
}

func TestFrames(t *testing.T) {
	whole := frameLines(t, "contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"Hello \"}}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"you\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\n")
	want := "contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"" + h("Hello you") + "\"}}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\n"
	must.Equal(t, unframe(t, response(wire.Bedrock, whole)), want, "unframe")
	// A cut frame is dropped, the frames before it are kept.
	first := strings.Index(whole[16:], ":event-type") // of the second frame, behind its prelude
	for n := range len(whole) {
		got := response(wire.Bedrock, whole[:n])
		switch {
		case n == 0, strings.HasPrefix(got, "~"):
			if n > 2*first && n > 300 {
				t.Errorf("cut at %d: %q", n, got)
			}
		default:
			unframe(t, got)
		}
	}
	// A damaged frame and all frames behind it are dropped.
	damaged := []byte(whole)
	damaged[len(damaged)-2] ^= 1
	if got := unframe(t, response(wire.Bedrock, string(damaged))); strings.Contains(got, "messageStop") {
		t.Errorf("got %s", got)
	}
	damaged[80] ^= 1
	must.Equal(t, response(wire.Bedrock, string(damaged)), h(string(damaged))+":bad", "response")
	// A payload that is not JSON.
	must.Equal(t, unframe(t, response(wire.Bedrock, makeFrame([][2]string{{":event-type", "x"}}, "secret"))), "x "+h("secret")+":bad\n", "unframe")
}

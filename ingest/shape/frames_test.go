package shape

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/wire"
)

// makeFrame is a frame as AWS writes them.
func makeFrame(headers [][2]string, payload string) string {
	var h []byte
	for _, kv := range headers {
		h = append(h, byte(len(kv[0])))
		h = append(append(h, kv[0]...), headerText)
		h = binary.BigEndian.AppendUint16(h, uint16(len(kv[1])))
		h = append(h, kv[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
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

// unframe is the inverse of frameLines and checks every checksum; a header that does not stay is not there.
func unframe(t testing.TB, s string) string {
	t.Helper()
	var out strings.Builder
	for len(s) > 0 {
		b := []byte(s)
		if !isFrame(b) || int(binary.BigEndian.Uint32(b)) > len(b) {
			t.Fatalf("no frame: %q", s)
		}
		f := b[:binary.BigEndian.Uint32(b)]
		if crc32.ChecksumIEEE(f[:len(f)-4]) != binary.BigEndian.Uint32(f[len(f)-4:]) {
			t.Fatalf("checksum of %q", f)
		}
		headers := f[prelude : prelude+binary.BigEndian.Uint32(f[4:])]
		payload := f[prelude+len(headers) : len(f)-4]
		for len(headers) > 0 {
			n := 1 + int(headers[0])
			size := valueSize(headers[n:])
			name, value := string(headers[1:n]), string(headers[n+3:n+size])
			switch name {
			case ":event-type":
				out.WriteString(value + " ")
			case ":exception-type":
				out.WriteString("!" + value + " ")
			case ":content-type", ":message-type":
			default:
				t.Errorf("header %s stays", name)
			}
			headers = headers[n+size:]
		}
		out.Write(payload)
		out.WriteByte('\n')
		s = s[len(f):]
	}
	return out.String()
}

func TestFrames(t *testing.T) {
	whole := frameLines(t, "contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"Hello \"}}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"you\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\n")
	want := "contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"" + h("Hello you") + "\"}}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\n"
	if got := unframe(t, response(wire.Bedrock, whole)); got != want {
		t.Errorf("got %s", got)
	}
	// Cut in a frame: what came whole stays.
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
	// A damaged frame and what is behind it go.
	damaged := []byte(whole)
	damaged[len(damaged)-2] ^= 1
	if got := unframe(t, response(wire.Bedrock, string(damaged))); strings.Contains(got, "messageStop") {
		t.Errorf("got %s", got)
	}
	damaged[80] ^= 1
	if got := response(wire.Bedrock, string(damaged)); got != h(string(damaged))+":bad" {
		t.Errorf("got %q", got)
	}
	// A payload that is no JSON.
	if got := unframe(t, response(wire.Bedrock, makeFrame([][2]string{{":event-type", "x"}}, "secret"))); got != "x "+h("secret")+":bad\n" {
		t.Errorf("got %s", got)
	}
}

package eventstream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// read returns the messages of a body up to the first error.
func read(body []byte) (got []Message, err error) {
	for m, e := range Messages(body) {
		if e != nil {
			return got, e
		}
		got = append(got, m)
	}
	return got, nil
}

// frame makes a frame of headers and a payload, with right checksums.
func frame(headers, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// The frames in the format's specification: an empty one, and one with a payload.
func TestMessagesKnown(t *testing.T) {
	f := func(frame, payload string) {
		t.Helper()
		b := must.Get(hex.DecodeString(strings.ReplaceAll(frame, " ", "")))(t)
		got, err := read(b)
		if err != nil || len(got) != 1 || string(got[0].Payload) != payload || !HasFrame(b) {
			t.Errorf("got %q, %v, frame %v, want payload %q", got, err, HasFrame(b), payload)
		}
	}
	f("00000010 00000000 05c248eb 7d98c8ff", "")
	f("0000001d 00000000 fd528c5a 7b27666f6f273a27626172277d c3653936", "{'foo':'bar'}")
}

var delta = Message{
	Type: []byte("event"), EventType: []byte("contentBlockDelta"), ContentType: []byte("application/json"),
	Payload: []byte(`{"contentBlockIndex":0,"delta":{"text":"Hi"}}`),
}

func TestAppend(t *testing.T) {
	want := []Message{
		delta,
		{Type: []byte("exception"), ExceptionType: []byte("throttlingException"), Payload: []byte(`{"message":"Slow down"}`)},
		{Type: []byte("error"), ErrorCode: []byte("InternalError"), ErrorMessage: []byte("Oops"), Payload: []byte{}},
		{Type: bytes.Repeat([]byte("x"), 65535), Payload: []byte("{}")},
	}
	var body []byte
	for _, m := range want {
		body = Append(body, m)
	}
	got, err := read(body)
	if !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("%v, got %q, want %q", err, got, want)
	}
}

func TestAppendCutsHeader(t *testing.T) {
	got, err := read(Append(nil, Message{Type: make([]byte, 70000)}))
	if err != nil || len(got[0].Type) != 65535 {
		t.Errorf("got %v, a header of %d bytes", err, len(got[0].Type))
	}
}

func TestHeaders(t *testing.T) {
	f := func(headers string, want string, wantErr error) {
		t.Helper()
		got, err := read(frame(headers, "p"))
		must.Is(t, err, wantErr, headers)
		if err == nil && string(got[0].EventType) != want {
			t.Errorf("%q: event type %q, want %q", headers, got[0].EventType, want)
		}
	}
	event := "\x0b:event-type\x07\x00\x04stop"
	f("", "", nil)
	f(event, "stop", nil)
	// Values of every type are skipped.
	f("\x01a\x00"+event, "stop", nil)
	f("\x01a\x01"+event, "stop", nil)
	f("\x01a\x021"+event, "stop", nil)
	f("\x01a\x0312"+event, "stop", nil)
	f("\x01a\x041234"+event, "stop", nil)
	f("\x01a\x0512345678"+event, "stop", nil)
	f("\x01a\x06\x00\x03123"+event, "stop", nil)
	f("\x01a\x07\x00\x03123"+event, "stop", nil)
	f("\x01a\x0812345678"+event, "stop", nil)
	f("\x01a\x091234567812345678"+event, "stop", nil)
	// A header of another type is ignored.
	f("\x0b:event-type\x06\x00\x04stop", "", nil)
	f("\x01a\x0a"+event, "", ErrFrame)
	// Headers that do not fill their bytes.
	f("\x05a", "", ErrFrame)
	f("\x01a", "", ErrFrame)
	f("\x01a\x04123", "", ErrFrame)
	f("\x01a\x07\x00", "", ErrFrame)
	f("\x01a\x07\x00\x02b", "", ErrFrame)
	f(event+"\x00", "", ErrFrame)
}

func TestMessagesCut(t *testing.T) {
	first := Append(nil, delta)
	body := Append(bytes.Clone(first), delta)
	for n := range body {
		got, err := read(body[:n])
		want := error(nil)
		if n != 0 && n != len(first) {
			want = ErrTruncated
		}
		if !errors.Is(err, want) || len(got) != n/len(first) {
			t.Errorf("%d of %d bytes: %d messages, %v", n, len(body), len(got), err)
		}
	}
}

func TestMessagesBad(t *testing.T) {
	body := Append(Append(nil, delta), delta)
	for i := range body {
		bad := bytes.Clone(body)
		bad[i] ^= 0x10
		got, err := read(bad)
		if !errors.Is(err, ErrFrame) || len(got) != 2*i/len(body) {
			t.Errorf("byte %d of %d changed: %d messages, %v", i, len(body), len(got), err)
		}
		must.Equal(t, HasFrame(bad), i >= 12, "byte %d of %d changed: HasFrame", i, len(body))
	}
	// Inconsistent lengths under a right checksum.
	f := func(total, headers uint32) {
		t.Helper()
		b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, total), headers)
		b = append(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), make([]byte, 64)...)
		if _, err := read(b); !errors.Is(err, ErrFrame) || HasFrame(b) {
			t.Errorf("lengths %d and %d: %v", total, headers, err)
		}
	}
	f(0, 0)
	f(15, 0)
	f(16, 1)
	f(32, 1<<32-1)
}

// A false length costs no memory.
func TestMessagesAllocate(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<32-1)
	huge = binary.BigEndian.AppendUint32(huge, 1<<31)
	huge = binary.BigEndian.AppendUint32(huge, crc32.ChecksumIEEE(huge))
	body := append(Append(nil, delta), huge...)
	if n := testing.AllocsPerRun(10, func() {
		for range Messages(body) {
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	must.Is(t, must.Err(read(body)), ErrTruncated)
}

func TestMessagesStop(t *testing.T) {
	for m := range Messages(Append(Append(nil, delta), Message{Payload: []byte("second")})) {
		if string(m.Payload) == "second" {
			t.Fatal("a message after the loop ended")
		}
		break
	}
}

func TestHasFrame(t *testing.T) {
	for _, body := range []string{"", "{}", `{"message":"The model is not there"}`, "data: {}\n\n", strings.Repeat("\x00", 12)} {
		if HasFrame([]byte(body)) {
			t.Errorf("%q starts with a frame", body)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(Append(Append(nil, delta), Message{Type: []byte("exception"), ExceptionType: []byte("validationException"), Payload: []byte("{}")}))
	f.Add(Append(nil, delta)[:40])
	f.Add(frame("\x01a\x091234567812345678\x02bc\x06\x00\x03123\x01d\x00", "payload"))
	f.Add(frame("\x01a\x07\xff\xff", ""))
	f.Fuzz(func(t *testing.T, body []byte) {
		// As a body and, because no mutation finds a checksum, as headers and payload of a good frame.
		got, err := read(body)
		if err != nil && !errors.Is(err, ErrFrame) && !errors.Is(err, ErrTruncated) {
			t.Errorf("error %v", err)
		}
		n := min(len(body), 40)
		inner, err := read(frame(string(body[:n]), string(body[n:])))
		if err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("error %v", err)
		}
		for _, m := range append(got, inner...) {
			again, err := read(Append(nil, m))
			if !reflect.DeepEqual(again, []Message{m}) && !hasEmpty(m) || err != nil {
				t.Errorf("%v, got %q, want %q", err, again, m)
			}
		}
	})
}

// hasEmpty reports a header without a value, which Append omits.
func hasEmpty(m Message) bool {
	for _, h := range [][]byte{m.Type, m.EventType, m.ExceptionType, m.ErrorCode, m.ErrorMessage, m.ContentType} {
		if h != nil && len(h) == 0 {
			return true
		}
	}
	return false
}

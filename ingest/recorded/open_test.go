package recorded

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // never fails
	_ = w.Close()
	return b.String()
}

func zstdCompressed(text string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func inUTF16(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func TestOpen(t *testing.T) {
	const text = "{\"request\":\"名😀\"}\r\n{}\n"
	f := func(name, file string) {
		t.Helper()
		for _, r := range []io.Reader{strings.NewReader(file), iotest.OneByteReader(strings.NewReader(file))} {
			br, err := Open(r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if got, err := io.ReadAll(br); string(got) != text || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	f("plain", text)
	f("a byte order mark", "\ufeff"+text)
	f("gzip", gzipped(text))
	f("two gzip members", gzipped(text[:7])+gzipped(text[7:]))
	f("gzip with a byte order mark", gzipped("\ufeff"+text))
	f("zstd", zstdCompressed(text))
	f("zstd after a skippable frame", "\x51\x2a\x4d\x18\x02\x00\x00\x00ab"+zstdCompressed(text))
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		f(order.String(), inUTF16(order, text))
		f(order.String()+" marked", inUTF16(order, "\ufeff"+text))
		f(order.String()+" in gzip", gzipped(inUTF16(order, "\ufeff"+text)))
		f(order.String()+" in zstd", zstdCompressed(inUTF16(order, text)))
	}
}

func TestOpenRefuses(t *testing.T) {
	f := func(file, want string) {
		t.Helper()
		br, err := Open(strings.NewReader(file))
		if err == nil {
			_, err = io.ReadAll(br)
		}
		must.Fail(t, err, want, file)
	}
	tar := strings.Repeat("\x00", tarMagic) + "ustar\x0000"
	f("PK\x03\x04\x14\x00", "zip archive; unpack")
	f("BZh91AY", "bzip2")
	f("\xfd7zXZ\x00", "xz")
	f("7z\xbc\xaf\x27\x1c", "7z")
	f(tar, "tar archive")
	f(gzipped(tar), "tar archive")
	f("PAR1\x15", "Parquet")
	f("SQLite format 3\x00", "SQLite")
	f("%PDF-1.7", "PDF")
	f("\xff\xfe\x00\x00{\x00\x00\x00", "UTF-32")
	f("\x1f\x8bxx", "unpack gzip: ")
	f(gzipped("{}")[:12], "unpack gzip: unexpected EOF")
	f(zstdCompressed("{}")[:8], "unpack zstd: ")
	f("\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00x", "unpack zstd: the window exceeds 64 MiB; unpack the file first")
}

func TestIsHAR(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		br := must.Get(Open(iotest.OneByteReader(strings.NewReader(text))))(t)
		must.Equal(t, IsHAR(br), want, "%.40q", text)
	}
	f(`{"log":{`, true)
	f("\n{\r\n\t\"log\"  :\n", true)
	f(strings.Repeat(" ", 100)+`{"log":`, true)
	f("", false)
	f(`{"log"`, false)
	f(`{"log" 1`, false)
	f(`{"logs":[]}`, false)
	f(`[{"log":1}]`, false)
	f(`{"request":{}}`, false)
}

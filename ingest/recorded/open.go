package recorded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// MaxValue is the maximum length of a line, a HAR entry or another JSON value of a file in bytes.
const MaxValue = 64 << 20

// maxWindow is the maximum window of a zstd file, which is the memory needed to unpack it. zstd needs 8 MiB up to level 19,
// and more only with --ultra or --long.
const maxWindow = 64 << 20

// Open returns a reader of the text of a file: it unpacks gzip and zstd, converts UTF-16 to UTF-8 and removes a byte order
// mark. It returns an error for archives and other formats that are not text, which says what to do.
func Open(r io.Reader) (*bufio.Reader, error) {
	br := bufio.NewReaderSize(r, bufferSize)
	if err := refuse(br, 4); err != nil {
		return nil, err
	}
	var unpacked io.Reader
	head, _ := br.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		unpacked = unpacker{z, "gzip"}
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("unpack zstd: %w", err)
		}
		unpacked = unpacker{z, "zstd"}
	}
	if unpacked != nil {
		br = bufio.NewReaderSize(unpacked, bufferSize)
		if err := refuse(br, tarMagic+5); err != nil {
			return nil, err
		}
	}
	if utf8 := decodeUTF16(br); utf8 != nil {
		br = bufio.NewReaderSize(utf8, bufferSize)
	}
	if bom, _ := br.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = br.Discard(3) // the bytes are buffered
	}
	return br, nil
}

// An unpacker adds context to the errors of a decompressor.
type unpacker struct {
	r      io.Reader
	format string
}

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = fmt.Errorf("unpack zstd: the window exceeds %d MiB; unpack the file first", maxWindow>>20)
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("unpack %s: %w", u.format, err)
	}
	return n, err
}

// tarMagic is the offset of the magic number of a tar file.
const tarMagic = 257

// refused contains formats that are recognised only to refuse them.
var refused = []struct {
	offset int
	magic  string
	err    string
}{
	{0, "PK\x03\x04", "is a zip archive; unpack it first"},
	{0, "BZh", "is compressed with bzip2; unpack it first, or use gzip or zstd"},
	{0, "\xfd7zX", "is compressed with xz; unpack it first, or use gzip or zstd"},
	{0, "7z\xbc\xaf", "is a 7z archive; unpack it first"},
	{tarMagic, "ustar", "is a tar archive; unpack it first"},
	{0, "PAR1", "is a Parquet file; export it as JSON lines"},
	{0, "SQLi", "is an SQLite database; export it as JSON lines"},
	{0, "%PDF", "is a PDF document, not JSON"},
	{0, "\xff\xfe\x00\x00", "is UTF-32; convert it to UTF-8"},
	{0, "\x00\x00\xfe\xff", "is UTF-32; convert it to UTF-8"},
}

// refuse returns an error if br contains a refused format. It waits for n bytes only.
func refuse(br *bufio.Reader, n int) error {
	_, _ = br.Peek(n)
	head, _ := br.Peek(br.Buffered())
	for _, f := range refused {
		if len(head) > f.offset && bytes.HasPrefix(head[f.offset:], []byte(f.magic)) {
			return errors.New("the input " + f.err)
		}
	}
	return nil
}

// hint returns what a text that is not JSON probably is and what to do, or "".
func hint(text []byte) string {
	text = bytes.TrimSpace(text)
	start := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if bytes.HasPrefix(text, []byte(p)) {
				return true
			}
		}
		return false
	}
	switch {
	case bytes.IndexByte(text[:min(len(text), 512)], 0) >= 0 && !start("{", "["):
		return "binary data"
	case start("{'", "[{'", "['"):
		return "a printed Python object; write it with json.dumps"
	case start("data:", "event:"):
		return "server-sent events; record them as the response of an exchange, with its request"
	case start("POST ", "GET ", "HTTP/", "curl "):
		return "an HTTP message or command; pass the JSON body alone"
	case start("<"):
		return "HTML or XML"
	}
	return ""
}

// NotJSONError returns err, the syntax error in text, with a hint.
func NotJSONError(text []byte, err error) error {
	if hint := hint(text); hint != "" {
		return fmt.Errorf("%w (this looks like %s)", err, hint)
	}
	return err
}

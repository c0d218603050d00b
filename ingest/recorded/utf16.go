package recorded

import (
	"bufio"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// decodeUTF16 returns a reader that converts UTF-16 input to UTF-8, or nil for other encodings. PowerShell writes UTF-16
// when it redirects output. The encoding is detected by the byte order mark or by two ASCII characters.
func decodeUTF16(br *bufio.Reader) io.Reader {
	b, _ := br.Peek(4)
	if len(b) < 4 {
		return nil
	}
	switch {
	case b[0] == 0xff && b[1] == 0xfe, b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0:
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Reader(br)
	case b[0] == 0xfe && b[1] == 0xff, b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0:
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder().Reader(br)
	}
	return nil
}

package terminal

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// hidden reports whether r may command a terminal, or is invisible and may change how the text around it is read: control
// characters except newline and tab, and format characters except those that words and emoji need.
func hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && !unicode.In(r, unicode.Join_Control, unicode.Prepended_Concatenation_Mark)
}

// Escape returns s with each hidden character as \u202e, so that text of agents and providers can neither command a terminal nor
// pretend to be other text. In JSON, it is the same character. Invalid UTF-8 becomes U+FFFD.
func Escape(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		escapeRune(&b, r)
	}
	return b.String()
}

func escapeRune(w io.Writer, r rune) {
	switch high, low := utf16.EncodeRune(r); {
	case !hidden(r):
		_, _ = io.WriteString(w, string(r))
	case r > 0xffff:
		_, _ = fmt.Fprintf(w, `\u%04x\u%04x`, high, low)
	default:
		_, _ = fmt.Fprintf(w, `\u%04x`, r)
	}
}

// colorStart is how a Style begins a color for a Writer. Nobody can guess it, so text with colors of its own is escaped.
var colorStart = "\x1b" + rand.Text() + "["

// csi begins a command of a terminal.
const csi = "\x1b["

// A Writer is the standard output or error of a command. It escapes what it writes, as Escape does, except for the colors of
// a Style. JSON stays valid, with the same values. It is safe for concurrent use.
type Writer struct {
	w io.Writer

	mu   sync.Mutex // guards rest
	rest []byte     // incomplete character or start of a color at the end of the last write
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.rest) > 0 {
		text = append(w.rest, p...)
	}
	var b bytes.Buffer
	b.Grow(len(text))
	n := 0 // bytes of text written to b
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		b.Write(text[n:i])
		n = i
		if after, ok := bytes.CutPrefix(text[i:], []byte(colorStart)); ok {
			b.WriteString(csi)
			n = len(text) - len(after)
		} else if !utf8.FullRune(text[i:]) || strings.HasPrefix(colorStart, string(text[i:min(len(text), i+len(colorStart))])) {
			break
		} else {
			r, size := utf8.DecodeRune(text[i:])
			escapeRune(&b, r)
			n += size
		}
		i = n
	}
	if n < len(text) && (text[n] == '\x1b' || !utf8.FullRune(text[n:])) {
		w.rest = bytes.Clone(text[n:])
	} else {
		b.Write(text[n:])
		w.rest = nil
	}
	if _, err := w.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Exact returns the writer for data that must not change, such as a file that a command writes: that below a Writer, or w itself if
// the output is a terminal.
func Exact(w io.Writer) io.Writer {
	if out, ok := w.(*Writer); ok && !IsTerminal(w) {
		return out.w
	}
	return w
}

// file returns the file that w writes to, or nil.
func file(w io.Writer) *os.File {
	if out, ok := w.(*Writer); ok {
		w = out.w
	}
	f, _ := w.(*os.File)
	return f
}

package records

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

const bufferSize = 256 << 10

// documents reads a file whose first value is not one line.
type documents struct {
	start int // line of the first value
	br    *bufio.Reader
	yield func(Value) bool

	text    []byte // the file from the first value on, up to the limit
	first   int    // length of the first line in text
	readErr error
}

// read yields the documents of the file. It returns false if the file consists of JSON lines with an invalid first line,
// that is, if a later line alone is an object.
func (d *documents) read(first []byte) bool {
	d.first = len(first) + 1
	d.text = append(bytes.Clone(first), '\n')
	for d.readErr == nil && len(d.text) <= recorded.MaxValue {
		if len(d.text) == cap(d.text) { // doubled up to the limit
			d.text = append(make([]byte, 0, max(bufferSize, min(2*cap(d.text), recorded.MaxValue+1))), d.text...)
		}
		var n int
		n, d.readErr = d.br.Read(d.text[len(d.text):cap(d.text)])
		d.text = d.text[:len(d.text)+n]
	}
	if errors.Is(d.readErr, io.EOF) {
		d.readErr = nil
	}
	long := len(d.text) > recorded.MaxValue
	i, ok := 0, true
	for ok && i < len(d.text) {
		if i, ok = jsonscan.ValueEnd(d.text, i); ok {
			i = jsonscan.Space(d.text, i)
		}
	}
	truncated := !ok && i == len(d.text)
	if d.readErr == nil && (ok || truncated && long) {
		d.values(long)
		return true
	}
	for line := range bytes.Lines(d.text[d.first:]) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '{' && jsonscan.Valid(line) {
			return false
		}
	}
	err := d.readErr
	if err == nil {
		err = syntaxError(d.text)
	}
	d.yield(Value{Line: d.start, Text: d.text, Err: err})
	return true
}

// remaining returns the file after its first line.
func (d *documents) remaining() io.Reader {
	return io.MultiReader(bytes.NewReader(d.text[d.first:]), failing{d.readErr}, d.br)
}

// values yields the documents. If the file exceeds the limit, the elements of an array are yielded instead of the array.
func (d *documents) values(long bool) {
	w := window{r: d.br, buf: d.text, line: d.start}
	if long {
		w.array = d.text[0] == '['
	} else {
		w.err = io.EOF
	}
	d.text = nil
	for {
		v, ok := w.next()
		if !ok || !d.yield(v) || v.Err != nil {
			return
		}
	}
}

// A window reads the JSON values of a file, of which it holds one value at a time.
type window struct {
	r     io.Reader
	buf   []byte // never overwritten, because values are slices of it
	i     int    // start of the unread part of buf
	err   error  // error of r
	array bool   // the values are the elements of the array at the start
	begun bool
	line  int // line of buf[i]
}

// next returns the next value, or false at the end.
func (w *window) next() (v Value, ok bool) {
	c := w.space()
	if w.array {
		want := byte(',')
		if !w.begun {
			want = '['
		}
		switch {
		case c == ']' && w.begun:
			w.array = false
			w.i++
			c = w.space()
		case c != want:
			return w.fail(), true
		default:
			w.i++
			c = w.space()
		}
	}
	w.begun = true
	if c == 0 && w.i == len(w.buf) && !w.array && errors.Is(w.err, io.EOF) {
		return v, false
	}
	for {
		end, valid := jsonscan.ValueEnd(w.buf, w.i)
		if valid && (end < len(w.buf) || w.err != nil) {
			v = Value{Line: w.line, Text: w.buf[w.i:end:end]}
			w.line += bytes.Count(v.Text, []byte("\n"))
			w.i = end
			if w.array && isMessage(v.Text) {
				return Value{Line: v.Line, Err: errTooLong}, true
			}
			return v, true
		}
		if end < len(w.buf) || !w.fill() {
			return w.fail(), true
		}
	}
}

// isMessage reports whether an element of an array is a message, so that the array is one history.
func isMessage(text []byte) bool {
	f, _ := Parse(text)
	return f.Has("role") || f.Has("type")
}

// fail returns the error at the current position.
func (w *window) fail() Value {
	err := w.err
	switch {
	case len(w.buf)-w.i > recorded.MaxValue:
		err = errTooLong
	case err == nil || errors.Is(err, io.EOF):
		if err = syntaxError(w.buf[w.i:]); err == nil {
			err = errors.New("a value is not followed by a comma or by the end of the array")
		}
	}
	return Value{Line: w.line, Err: err}
}

// space steps over white space and returns the next byte, or 0 at the end.
func (w *window) space() byte {
	for {
		start := w.i
		w.i = jsonscan.Space(w.buf, start)
		w.line += bytes.Count(w.buf[start:w.i], []byte("\n"))
		if w.i < len(w.buf) {
			return w.buf[w.i]
		}
		if !w.fill() {
			return 0
		}
	}
}

// fill reads more of the file and reports whether it did.
func (w *window) fill() bool {
	rest := w.buf[w.i:]
	if w.err != nil || len(rest) > recorded.MaxValue {
		return false
	}
	buf := make([]byte, max(2*len(rest), bufferSize))
	n := copy(buf, rest)
	// Not io.ReadFull, which returns the same error for the end of the file as decompressors for a truncated one.
	end := n
	for read := 0; end < len(buf) && w.err == nil; end += read {
		read, w.err = w.r.Read(buf[end:])
	}
	w.buf, w.i = buf[:end], 0
	return end > n
}

// entries yields the LLM calls of a HAR as exchanges.
func entries(br *bufio.Reader, yield func(Value) bool) {
	r, err := recorded.NewReader(br, recorded.Config{})
	if err != nil {
		yield(Value{Line: 1, Err: err})
		return
	}
	for n := 1; ; n++ {
		v := Value{Line: 1, Entry: n}
		x, err := r.Next()
		var bad *recorded.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &bad) && bad.Reason == recorded.NotLLM:
			continue
		case errors.As(err, &bad):
			v.Err = bad.Err
		case err != nil:
			v.Err = err
			yield(v)
			return
		default:
			v.Text, v.Err = exchangeText(x)
		}
		if !yield(v) {
			return
		}
	}
}

// exchangeText returns x as a line of a JSON lines file. The bodies are strings, so that their bytes do not change.
func exchangeText(x *recorded.Exchange) ([]byte, error) {
	line := map[string]any{"url": x.Request.URL, "status": x.Response.Status}
	if x.Response.Status == 0 {
		line["error"] = x.Response.Error
	}
	for key, body := range map[string][]byte{"request": x.Request.Body, "response": x.Response.Body} {
		switch {
		case len(body) == 0:
			line[key] = nil
		case utf8.Valid(body):
			line[key] = string(body)
		default:
			line[key], line[key+"_encoding"] = body, "base64"
		}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("encode HAR entry: %w", err)
	}
	return text, nil
}

// failing is a reader that returns an error; nil means io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

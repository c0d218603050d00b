package lint

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A Value is one JSON value of a file, or what could not be read as one.
type Value struct {
	Line int // where it starts, from 1
	Text []byte
	Err  error
}

// Values cuts a file, which may be gzip, into its JSON values: the one JSON document that it is, or one a line.
func Values(r io.Reader) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		br := bufio.NewReaderSize(r, 1<<20)
		if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			z, err := gzip.NewReader(br)
			if err != nil {
				yield(Value{Line: 1, Err: fmt.Errorf("unpack gzip: %w", err)})
				return
			}
			br = bufio.NewReaderSize(unpacker{z}, 1<<20)
		}
		first := true
		for line := 1; ; line++ {
			text, err := br.ReadBytes('\n')
			text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
			if first && len(text) > 0 && err == nil && !json.Valid(text) {
				rest, readErr := io.ReadAll(br)
				if document(line, text, rest, readErr, yield) {
					return
				}
				br, err = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), failing{readErr})), nil
			}
			first = first && len(text) == 0
			if len(text) > 0 && !yield(Value{Line: line, Text: text, Err: syntax(text)}) {
				return
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) {
				yield(Value{Line: line, Err: err})
			}
			return
		}
	}
}

// document yields a file as the JSON values that stretch over its lines, of which the first with text is number start,
// and reports whether it is that: unlike in a file of JSON lines with a broken first one, no line after the first is a
// whole value that could be a record.
func document(start int, first, rest []byte, readErr error, yield func(Value) bool) bool {
	whole := append(append(bytes.Clone(first), '\n'), rest...)
	if readErr == nil && json.Valid(whole) {
		yield(Value{Line: start, Text: bytes.TrimSpace(whole)})
		return true
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	var found []Value
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) && readErr == nil {
			for _, v := range found {
				if !yield(v) {
					break
				}
			}
			return true
		}
		if err != nil {
			break
		}
		end := int(d.InputOffset())
		found = append(found, Value{Line: start + bytes.Count(whole[:end-len(v)], []byte("\n")), Text: v})
	}
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '{' && json.Valid(line) {
			return false
		}
	}
	if readErr == nil {
		readErr = syntax(whole)
	}
	yield(Value{Line: start, Text: whole, Err: readErr})
	return true
}

// unpacker says in its errors what could not be read.
type unpacker struct{ z *gzip.Reader }

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("unpack gzip: %w", err)
	}
	return n, err
}

// failing is a reader that ends with an error; io.EOF if that is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// syntax says where text is no JSON; nil if it is.
func syntax(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var v json.RawMessage
	return json.Unmarshal(text, &v)
}

/*
Package records reads what programs record of LLM calls: JSON or JSON lines with requests, messages, answers and errors.

	file ─> Values ─> one JSON value per record ─> Fields ─> TargetOf: the API that it was sent to
	                                                  └────> Describe: a message on one line
*/
package records

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

const bufferSize = 1 << 20

// A Value is one JSON value of a file, or an unreadable part of the file.
type Value struct {
	Line int // 1-based line on which it starts
	Text []byte
	Err  error
}

// Values returns the JSON values of a file, which may be compressed with gzip: documents that may span lines, or one value
// per line.
func Values(r io.Reader) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		br := bufio.NewReaderSize(r, bufferSize)
		if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			z, err := gzip.NewReader(br)
			if err != nil {
				yield(Value{Line: 1, Err: fmt.Errorf("unpack gzip: %w", err)})
				return
			}
			br = bufio.NewReaderSize(unpacker{z}, bufferSize)
		}
		first := true
		for line := 1; ; line++ {
			text, err := br.ReadBytes('\n')
			text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
			if first && len(text) > 0 && err == nil && !json.Valid(text) {
				rest, readErr := io.ReadAll(br)
				if documents(line, text, rest, readErr, yield) {
					return
				}
				br, err = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), failing{readErr})), nil
			}
			first = first && len(text) == 0
			if len(text) > 0 && !yield(Value{Line: line, Text: text, Err: syntaxError(text)}) {
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

// documents yields the JSON documents of a file; start is the line of the first one. It returns false if the file consists
// of JSON lines with an invalid first line, that is, if a later line alone is an object.
func documents(start int, first, rest []byte, readErr error, yield func(Value) bool) bool {
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
		readErr = syntaxError(whole)
	}
	yield(Value{Line: start, Text: whole, Err: readErr})
	return true
}

// An unpacker adds context to gzip errors.
type unpacker struct{ z *gzip.Reader }

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("unpack gzip: %w", err)
	}
	return n, err
}

// failing is a reader that returns an error; nil means io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// syntaxError returns the syntax error in text, or nil if text is valid JSON.
func syntaxError(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var v json.RawMessage
	return json.Unmarshal(text, &v)
}

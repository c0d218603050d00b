/*
Package records reads what programs record of LLM calls: JSON, JSON lines or a HAR with requests, messages, answers and
errors.

	file ─> Values ─> one JSON value ─> Split ─> Record: request, answer ─> Target: the API that it was sent to
	                       └──────────> Fields ─> Describe: a message on one line
*/
package records

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Kept is the length in bytes above which the text of a Value stays valid after the next one is read.
const Kept = 1 << 20

// errTooLong is the error for a value that exceeds the limit, which bounds the memory for one value.
var errTooLong = fmt.Errorf("longer than %d MiB; write one record per line", recorded.MaxValue>>20)

// A Value is one JSON value of a file, or an unreadable part of the file.
type Value struct {
	Line  int    // 1-based line on which it starts; 1 in a HAR
	Entry int    // 1-based number of an entry of a HAR, else 0
	Text  []byte // valid until the next value is read, unless it is longer than Kept
	Err   error

	// Repeats is the number of identical lines that directly follow. Only Runs sets it.
	Repeats int
}

// Number returns the number of the value in its file: that of the entry in a HAR, else the line.
func (v *Value) Number() int { return max(v.Line, v.Entry) }

// Check returns the error of v, which may be a syntax error in its text.
func (v *Value) Check() error {
	if v.Err != nil || jsonscan.Valid(v.Text) {
		return v.Err
	}
	return syntaxError(v.Text)
}

// Values returns the JSON values of a file: documents that may span lines, one value per line, or the LLM calls of a HAR
// as exchanges. The file may be encoded in every way that recorded.Open reads. The values of lines are not validated; see
// Check.
func Values(r io.Reader) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for v := range Runs(r) {
			for n := v.Repeats; n >= 0; n-- {
				v.Repeats = 0
				if !yield(v) {
					return
				}
				v.Line++
			}
		}
	}
}

// maxRepeated is the length in bytes above which equal lines are values of their own.
const maxRepeated = 1 << 10

// Runs is like Values, but returns lines that repeat as one value, so that a file of a billion empty objects costs a comparison
// per line. A run may be returned in several parts.
func Runs(r io.Reader) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		br, err := recorded.Open(r)
		if err != nil {
			yield(Value{Line: 1, Err: err})
			return
		}
		if recorded.IsHAR(br) {
			entries(br, yield)
			return
		}
		lines, first := recorded.NewLines(br, recorded.MaxValue), true
		for line := 1; ; line++ {
			raw, err := lines.Next()
			if errors.Is(err, recorded.ErrTooLong) {
				if first = false; !yield(Value{Line: line, Err: errTooLong}) {
					return
				}
				continue
			}
			text := trim(raw)
			if first && len(text) > 0 && err == nil && !jsonscan.Valid(text) {
				d := documents{start: line, br: br, yield: yield}
				if d.read(text) {
					return
				}
				lines = recorded.NewLines(bufio.NewReader(d.remaining()), recorded.MaxValue)
			}
			first = first && len(text) == 0
			repeats := 0
			if len(raw) <= maxRepeated && err == nil {
				repeats = lines.Repeats(raw)
			}
			// A line that an error cuts off is no value of its own.
			if len(text) > 0 && (err == nil || jsonscan.Valid(text)) && !yield(Value{Line: line, Text: text, Repeats: repeats}) {
				return
			}
			if line += repeats; err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) {
				yield(Value{Line: line, Err: err})
			}
			return
		}
	}
}

func trim(text []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))) }

// syntaxError returns the syntax error in text, or nil if text is valid JSON.
func syntaxError(text []byte) error {
	var v json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("read JSON: %w", recorded.NotJSONError(text, err))
	}
	return nil
}

package explain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/recorded"
)

// maxInput is the maximum size of a text, which is an input without records.
const maxInput = 64 << 20

var errTooLong = fmt.Errorf("no records in the first %d MiB, which is the limit of a text", maxInput>>20)

// An input is either a text or a sequence of records.
type input struct {
	text    []byte
	records io.Reader // nil if the input is a text
}

// read detects whether r contains records: the first line is a record with a body, a response or a request; or r is a
// sequence of JSON values that begins with a record; or a later line is such a record (lines that are not records are then
// invalid records), or r is a HAR. Records are read incrementally. Any other input is a text.
func read(r io.Reader) (input, error) {
	br, err := recorded.Open(r)
	if err != nil {
		return input{}, err
	}
	if recorded.IsHAR(br) {
		return input{records: br}, nil
	}
	var head []byte
	lines := recorded.NewLines(br, maxInput)
	for {
		line, err := lines.Next()
		if errors.Is(err, recorded.ErrTooLong) {
			return input{}, errTooLong
		}
		head = append(head, line...)
		if likenessOf(line) == full {
			return input{records: io.MultiReader(bytes.NewReader(head), remaining(br, err))}, nil
		}
		if err == nil && len(trim(line)) == 0 && len(head) < maxInput {
			continue
		}
		if err == nil {
			var rest []byte
			rest, err = io.ReadAll(io.LimitReader(br, maxInput))
			head = append(head, rest...)
			if err == nil && len(rest) < maxInput {
				err = io.EOF
			}
		}
		switch {
		case hasRecords(head):
			return input{records: io.MultiReader(bytes.NewReader(head), remaining(br, err))}, nil
		case err == nil:
			return input{}, errTooLong
		case !errors.Is(err, io.EOF):
			return input{}, err
		}
		return input{text: trim(head)}, nil
	}
}

// remaining returns the rest of br, after a read that returned err.
func remaining(br *bufio.Reader, err error) io.Reader {
	switch {
	case err == nil:
		return br
	case errors.Is(err, io.EOF):
		return bytes.NewReader(nil)
	}
	return failing{err}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func trim(b []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\ufeff"))) }

// A likeness is the similarity of a JSON value to a record.
type likeness uint8

const (
	none    likeness = iota
	partial          // an error body, or an object with only an error or a status, as in logs
	full             // a record with a body, a response or a request
)

// likenessOf classifies a JSON value; an array counts as its first element.
func likenessOf(text []byte) likeness {
	text = trim(text)
	var f records.Fields
	switch {
	case len(text) > 0 && text[0] == '[':
		var all []json.RawMessage
		if json.Unmarshal(text, &all) != nil || len(all) == 0 || len(trim(all[0])) == 0 || all[0][0] != '{' {
			return none
		}
		return likenessOf(all[0])
	case len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &f) != nil:
		return none
	case f.Has("body") || f.Has("response") || f.Has("request"):
		return full
	case f.Has("error"):
		return partial
	}
	if _, ok := statusOf(f); ok {
		return partial
	}
	return none
}

// hasRecords reports whether text contains records, although its first line is not a full record.
func hasRecords(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(trim(text)))
	for n := 0; ; n++ {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) && n > 0 {
			return true
		}
		if err != nil || n == 0 && likenessOf(v) == none {
			break
		}
	}
	for line := range bytes.Lines(text) {
		if likenessOf(line) == full {
			return true
		}
	}
	return false
}

// elements returns the records of a JSON value: the elements of an array, else the value.
func elements(text []byte) []json.RawMessage {
	var all []json.RawMessage
	if len(text) > 0 && text[0] == '[' && json.Unmarshal(text, &all) == nil && len(all) > 0 {
		return all
	}
	return []json.RawMessage{text}
}

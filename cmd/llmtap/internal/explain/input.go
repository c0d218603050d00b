package explain

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxInput bounds what is read of an input before it is known to be records, and so a text.
const maxInput = 64 << 20

var errTooLong = fmt.Errorf("no records in the first %d MiB, and too long for a text", maxInput>>20)

// An input is one text, or records.
type input struct {
	text    []byte
	records io.Reader // nil for a text
}

// read decides what r is. It is records when its first line is one, when all of it is JSON values that start with one, or
// when any line is one with a body, a response or a request: the other lines are broken records then. Records are read
// on as they come. All else is a text.
func read(r io.Reader) (input, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return input{}, err
		}
		br = bufio.NewReaderSize(z, 64<<10)
	}
	if order := wide(br); order != nil {
		br = bufio.NewReaderSize(&utf16Reader{r: br, order: order}, 64<<10)
	}
	var head []byte
	for {
		line, err := br.ReadBytes('\n')
		head = append(head, line...)
		if recordIn(line) == whole {
			return input{records: io.MultiReader(bytes.NewReader(head), after(br, err))}, nil
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
			return input{records: io.MultiReader(bytes.NewReader(head), after(br, err))}, nil
		case err == nil:
			return input{}, errTooLong
		case !errors.Is(err, io.EOF):
			return input{}, err
		}
		return input{text: trim(head)}, nil
	}
}

// after is what follows of br, of which a read gave err.
func after(br *bufio.Reader, err error) io.Reader {
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

// How much of a record a JSON value is.
type likeness uint8

const (
	none  likeness = iota
	part           // an error body, or an error or a status that stands alone: a log has such lines too
	whole          // it has a body, a response or a request
)

// recordIn says how much of a record a JSON value is; an array counts as its first element.
func recordIn(text []byte) likeness {
	text = trim(text)
	var f fields
	switch {
	case len(text) > 0 && text[0] == '[':
		var all []json.RawMessage
		if json.Unmarshal(text, &all) != nil || len(all) == 0 || len(trim(all[0])) == 0 || all[0][0] != '{' {
			return none
		}
		return recordIn(all[0])
	case len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &f) != nil:
		return none
	case f.has("body") || f.has("response") || f.has("request"):
		return whole
	case f.has("error"):
		return part
	}
	if _, ok := statusOf(f); ok {
		return part
	}
	return none
}

// hasRecords reports whether text, whose first line is no whole record, holds records.
func hasRecords(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(trim(text)))
	for n := 0; ; n++ {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) && n > 0 {
			return true
		}
		if err != nil || n == 0 && recordIn(v) == none {
			break
		}
	}
	for line := range bytes.Lines(text) {
		if recordIn(line) == whole {
			return true
		}
	}
	return false
}

// elements are the records of a JSON value: those of an array, else itself.
func elements(text []byte) []json.RawMessage {
	var all []json.RawMessage
	if len(text) > 0 && text[0] == '[' && json.Unmarshal(text, &all) == nil && len(all) > 0 {
		return all
	}
	return []json.RawMessage{text}
}

package recorded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Config contains the values that a file does not contain, and limits.
type Config struct {
	Name     string    // name of the file, for messages
	Service  string    // service of records that do not contain one
	Day      time.Time // day of records without a time (the time of day is ignored); default: 1970-01-01
	Instance string    // id of this import, unique per import
	MaxLine  int       // maximum length of a line or HAR entry in bytes; default: MaxValue
}

const bufferSize = 256 << 10

// namespace is the UUID namespace of exchange ids. It must never change, because later imports must yield the same ids.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/llmtap/llmtap/ingest/recorded"))

// An Exchange is a recorded call.
type Exchange struct {
	ID                uuid.UUID    // derived from the line
	Source            string       // file:line, or file:entry for a HAR
	HasTime           bool         // the record contains its time
	CustomID          string       // of a batch, whose requests and answers are in different files
	Request, Response *event.Event // Request is nil for an answer of a batch
}

// A Reader reads the exchanges of a file, one line at a time. It is not safe for concurrent use.
type Reader struct {
	AwaitsAnswers bool // the file has the requests of a batch, whose answers are in another file

	cfg    Config
	source source
	parser func(text []byte) (*record, Reason, error)
	n      int // number of the current record
	first  *ahead
}

// ahead is a record that was read to detect the format.
type ahead struct {
	raw raw
	err error
}

// A source returns the raw JSON values of a file. They are valid until the next call. After an error other than
// ErrTooLong, there are no more values.
type source interface {
	Next() (raw []byte, err error)
}

// ErrTooLong is the error for a line that exceeds the limit.
var ErrTooLong = errors.New("line is too long")

// NewReader returns a Reader for r, which it opens with Open. It detects whether r contains JSON lines, the requests or
// answers of a batch, or a HAR.
func NewReader(r io.Reader, cfg Config) (*Reader, error) {
	if cfg.MaxLine <= 0 {
		cfg.MaxLine = MaxValue
	}
	br, err := Open(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", cfg.Name, err)
	}
	if IsHAR(br) {
		return &Reader{cfg: cfg, parser: parseEntry, source: newEntries(br, cfg.MaxLine)}, nil
	}
	rd := &Reader{cfg: cfg, parser: parseLine, source: NewLines(br, cfg.MaxLine)}
	first, err := rd.read()
	rd.first = &ahead{first, err}
	var batch bool
	if batch, rd.AwaitsAnswers = batchOf(first.text); batch {
		rd.parser = parseBatch
	}
	return rd, nil
}

// Next returns the next exchange, or io.EOF. After a *RecordError reading may continue; other errors are final.
func (r *Reader) Next() (*Exchange, error) {
	rec, err := r.read()
	if err != nil {
		return nil, err
	}
	return r.parse(rec)
}

// A raw record is the trimmed text of a record.
type raw struct {
	n    int // number in the file
	text []byte
}

// read returns the next record, which is valid until the next call. Its errors are those of Next.
func (r *Reader) read() (raw, error) {
	if first := r.first; first != nil {
		r.first = nil
		return first.raw, first.err
	}
	for {
		r.n++
		text, err := r.source.Next()
		switch {
		case errors.Is(err, ErrTooLong):
			return raw{}, &RecordError{r.where(r.n), TooLong, fmt.Errorf("longer than %d bytes", r.cfg.MaxLine)}
		case errors.Is(err, io.EOF):
			return raw{}, io.EOF
		case err != nil:
			return raw{}, fmt.Errorf("read %s: %w", r.where(r.n), err)
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return raw{r.n, text}, nil
		}
	}
}

// where returns the position of record n.
func (r *Reader) where(n int) string { return r.cfg.Name + ":" + strconv.Itoa(n) }

// parse parses a record. It retains no part of the text, and is safe for concurrent use.
func (r *Reader) parse(in raw) (*Exchange, error) {
	rec, reason, err := r.parser(in.text)
	if err != nil {
		return nil, &RecordError{r.where(in.n), reason, err}
	}
	x := rec.exchange(&r.cfg, in.n)
	x.ID, x.Source = uuid.NewSHA1(namespace, in.text), r.where(in.n)
	x.Response.Exchange = x.ID.String()
	if x.Request != nil {
		x.Request.Exchange = x.Response.Exchange
	}
	return x, nil
}

// Lines reads the lines of a file.
type Lines struct {
	br    *bufio.Reader
	limit int
	long  []byte // holds a line longer than br's buffer
}

// NewLines returns the lines of br. limit is the maximum length of a line in bytes.
func NewLines(br *bufio.Reader, limit int) *Lines { return &Lines{br: br, limit: limit} }

// Next returns the next line with its line feed, or io.EOF. The line is valid until the next call. After ErrTooLong reading
// may continue with the next line; other errors are final.
func (l *Lines) Next() ([]byte, error) {
	line, err := l.br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, atEnd(line, err)
	}
	if cap(l.long) > 4*bufferSize {
		l.long = nil // free the memory of a huge line
	}
	l.long = l.long[:0]
	tooLong := false
	for {
		if tooLong = tooLong || len(l.long)+len(line) > l.limit; !tooLong {
			if n := len(l.long) + len(line); n > cap(l.long) {
				// Doubled up to the limit: append would grow beyond it, and more often.
				l.long = append(make([]byte, 0, max(n, min(2*cap(l.long), l.limit))), l.long...)
			}
			l.long = append(l.long, line...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		line, err = l.br.ReadSlice('\n')
	}
	if tooLong && (err == nil || errors.Is(err, io.EOF)) {
		l.long = nil
		return nil, ErrTooLong
	}
	return l.long, atEnd(l.long, err)
}

// Repeats skips the lines that directly follow line, the result of the last Next, and are identical to it. It returns their
// number. It does not read from the file, and thus stops at the end of the buffer. line stays valid.
func (l *Lines) Repeats(line []byte) (n int) {
	if len(line) == 0 || line[len(line)-1] != '\n' {
		return 0
	}
	rest, _ := l.br.Peek(l.br.Buffered()) // the bytes are buffered
	for bytes.HasPrefix(rest, line) {
		rest = rest[len(line):]
		n++
	}
	_, _ = l.br.Discard(n * len(line))
	return n
}

// atEnd returns err, or nil if line is a last line without a line feed.
func atEnd(line []byte, err error) error {
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return nil
	}
	return err
}

// A Reason is the cause of a RecordError.
type Reason string

// Reasons why a record is not imported.
const (
	NotJSON     Reason = "not_json"     // the line is not a JSON object
	NotExchange Reason = "not_exchange" // the object is not an exchange: no request, or a field of the wrong type
	BadBody     Reason = "bad_body"     // a body cannot be decoded from the stated encoding
	TooLong     Reason = "too_long"     // the record exceeds Config.MaxLine
	NotLLM      Reason = "not_llm"      // a HAR entry is not an LLM call
)

// A RecordError reports a record that is not imported. Reading may continue.
type RecordError struct {
	Source string // file:line, or file:entry of a HAR
	Reason Reason
	Err    error
}

func (e *RecordError) Error() string { return fmt.Sprintf("%s: %v", e.Source, e.Err) }

func (e *RecordError) Unwrap() error { return e.Err }

package httpbody

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Limits of one body.
const (
	MaxBytes = 32 << 20 // compressed and decompressed
	maxRatio = 200      // decompressed to compressed size

	ratioFree  = 1 << 20   // decompressed bytes to which maxRatio does not apply
	firstBytes = 256 << 10 // first allocation of a body
	gzipBytes  = 64 << 10  // memory of a gzip decoder
	zstdWindow = 8 << 20   // largest window of zstd
	zstdBytes  = 12 << 20  // memory of a zstd decoder with that window
	zlibBytes  = 64 << 10  // memory of a zlib decoder
	snapBytes  = 256 << 10 // memory of a decoder of framed snappy, whose blocks have at most 64 KiB
)

// RetryAfter is the value of the header Retry-After for clients that must wait, in seconds.
const RetryAfter = "1"

// An Error is a refused body. Status is the status of the answer.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(status int, format string, args ...any) *Error {
	return &Error{status, fmt.Sprintf(format, args...)}
}

// ErrBehind means that the budget is exhausted. The client must try again later.
var ErrBehind = &Error{http.StatusTooManyRequests, "the receiver is behind: its memory for payloads in flight (receive.max_in_flight) is full; try again later"}

// A Body is the decompressed body of a request.
type Body struct {
	Bytes  []byte
	budget *Budget
	taken  int64
}

// Grow takes n more bytes from the budget, to be released with the body.
func (b *Body) Grow(n int64) bool {
	if !b.budget.Take(n) {
		return false
	}
	b.taken += n
	return true
}

// Release returns the memory of the body to the budget. The body must not be used any more.
func (b *Body) Release() {
	b.budget.Release(b.taken)
	b.Bytes, b.taken = nil, 0
}

// Read reads the body of r. The error is an *Error, or that of the connection.
func Read(r *http.Request, budget *Budget) (*Body, error) {
	if r.ContentLength > MaxBytes {
		return nil, tooLong()
	}
	b := &Body{budget: budget}
	if err := b.fill(r.Body, strings.Join(r.Header.Values("Content-Encoding"), ","), r.ContentLength); err != nil {
		return nil, err
	}
	return b, nil
}

// Inflate returns data decompressed. Its memory is released with the body.
func (b *Body) Inflate(encoding string, data []byte) ([]byte, error) {
	inflated := &Body{budget: b.budget}
	if err := inflated.fill(bytes.NewReader(data), encoding, -1); err != nil {
		return nil, err
	}
	b.taken += inflated.taken
	return inflated.Bytes, nil
}

// fill reads r, of which size bytes are expected unless it is negative, to its end. After an error the body has no memory.
func (b *Body) fill(r io.Reader, encoding string, size int64) error {
	wire := &counter{r: r}
	d, memory, err := open(wire, encoding, b)
	if err == nil {
		err = b.read(d, wire, size, memory > 0)
		d.close()
		b.budget.Release(memory)
		b.taken -= memory
	}
	if err != nil {
		b.Release()
	}
	return err
}

func tooLong() *Error {
	return refuse(http.StatusRequestEntityTooLarge, "the payload exceeds %d MiB; send fewer events at a time", MaxBytes>>20)
}

// A counter counts the bytes that it reads, and stops after MaxBytes.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > MaxBytes {
		return n, tooLong()
	}
	return n, err
}

// A decoder decompresses a body. close makes it reusable.
type decoder struct {
	io.Reader
	close func()
}

var (
	gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zstds = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			panic("BUG: options of the zstd decoder: " + err.Error())
		}
		return d
	}}
)

// open returns the decoder for an encoding, and the memory that it has taken from the budget.
func open(r io.Reader, encoding string, b *Body) (decoder, int64, error) {
	switch e := strings.ToLower(strings.TrimSpace(encoding)); e {
	case "", "identity":
		return decoder{r, func() {}}, 0, nil
	case "gzip", "x-gzip":
		if !b.Grow(gzipBytes) {
			return decoder{}, 0, ErrBehind
		}
		z := gzips.Get().(*gzip.Reader)
		if err := z.Reset(r); err != nil {
			return decoder{}, 0, broken(err)
		}
		return decoder{z, func() { gzips.Put(z) }}, gzipBytes, nil
	case "zstd":
		if !b.Grow(zstdBytes) {
			return decoder{}, 0, ErrBehind
		}
		z := zstds.Get().(*zstd.Decoder)
		if err := z.Reset(r); err != nil {
			return decoder{}, 0, broken(err)
		}
		return decoder{z, func() {
			_ = z.Reset(nil) // never fails
			zstds.Put(z)
		}}, zstdBytes, nil
	case "zlib", "deflate": // RFC 9110: deflate is the format of zlib
		if !b.Grow(zlibBytes) {
			return decoder{}, 0, ErrBehind
		}
		z, err := zlib.NewReader(r)
		if err != nil {
			return decoder{}, 0, broken(err)
		}
		return decoder{z, func() {}}, zlibBytes, nil
	case "snappy", "x-snappy-framed":
		return openSnappy(r, b)
	default:
		return decoder{}, 0, refuse(http.StatusUnsupportedMediaType,
			"Content-Encoding %q is not one of identity, gzip, zstd, deflate, zlib, snappy, x-snappy-framed; in an OpenTelemetry Collector, set compression: gzip", e)
	}
}

// snappyHeader is the start of framed snappy.
const snappyHeader = "\xff\x06\x00\x00sNaPpY"

// openSnappy returns the decoder for snappy. Some OpenTelemetry Collectors send the framed format and some a single block.
func openSnappy(r io.Reader, b *Body) (decoder, int64, error) {
	if !b.Grow(snapBytes) {
		return decoder{}, 0, ErrBehind
	}
	buffered := bufio.NewReader(r)
	if start, _ := buffered.Peek(len(snappyHeader)); string(start) == snappyHeader {
		return decoder{snappy.NewReader(buffered), func() {}}, snapBytes, nil
	}
	block := &Body{budget: b.budget}
	if err := block.read(buffered, nil, -1, false); err != nil {
		block.Release()
		return decoder{}, 0, err
	}
	defer block.Release()
	n, err := snappy.DecodedLen(block.Bytes)
	switch {
	case err != nil:
		return decoder{}, 0, broken(err)
	case n > MaxBytes:
		return decoder{}, 0, tooLong()
	case !b.Grow(int64(n)):
		return decoder{}, 0, ErrBehind
	}
	data, err := snappy.Decode(nil, block.Bytes)
	if err != nil {
		return decoder{}, 0, broken(err)
	}
	return decoder{bytes.NewReader(data), func() {}}, snapBytes + int64(n), nil
}

// broken returns the error for a body that cannot be read.
func broken(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return refuse(http.StatusBadRequest, "read the payload: %v", err)
}

// read reads r to its end. size is the expected length, or negative.
func (b *Body) read(r io.Reader, wire *counter, size int64, compressed bool) error {
	want := int64(MaxBytes)
	if size >= 0 && !compressed {
		want = size
	}
	buf, err := b.resize(nil, min(want+1, firstBytes)) // one more byte, to find the end without growing
	for err == nil {
		if len(buf) == cap(buf) {
			if buf, err = b.resize(buf, min(max(2*int64(cap(buf)), firstBytes), max(want, int64(cap(buf)))+1)); err != nil {
				break
			}
		}
		var n int
		n, err = r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > MaxBytes:
			return tooLong()
		case compressed && len(buf) > ratioFree && int64(len(buf)) > maxRatio*wire.n:
			return refuse(http.StatusRequestEntityTooLarge, "the payload is more than %d times larger than its compressed form", maxRatio)
		}
	}
	if b.Bytes = buf; errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return broken(err)
}

// resize returns a copy of buf with capacity n.
func (b *Body) resize(buf []byte, n int64) ([]byte, error) {
	if !b.Grow(n) {
		return buf, ErrBehind
	}
	grown := append(make([]byte, 0, n), buf...)
	b.budget.Release(int64(cap(buf)))
	b.taken -= int64(cap(buf))
	return grown, nil
}

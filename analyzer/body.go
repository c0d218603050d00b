package analyzer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds of bodies.
const (
	maxBody   = 64 << 20  // decompressed or joined
	maxRatio  = 200       // decompressed to compressed
	maxParts  = 4096      // of one body
	maxJoined = 256 << 20 // bytes of parts that wait for the others, and of responses that wait for their request
)

var errTooLarge = errors.New("decompressed body is too large")

// inflater decompresses bodies into memory that it reuses.
type inflater struct {
	buf  bytes.Buffer
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

// inflate returns body without its encoding. The result is valid until the next call.
func (f *inflater) inflate(encoding string, body []byte) ([]byte, error) {
	var r io.Reader
	switch src := bytes.NewReader(body); encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		if err := f.gzip.Reset(src); err != nil {
			return nil, fmt.Errorf("read gzip header: %w", err)
		}
		r = f.gzip
	case "zstd":
		if f.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
			if err != nil {
				return nil, fmt.Errorf("make zstd decoder: %w", err)
			}
			f.zstd = d
		}
		if err := f.zstd.Reset(src); err != nil {
			return nil, fmt.Errorf("read zstd header: %w", err)
		}
		r = f.zstd
	default:
		return nil, fmt.Errorf("encoding %q is not gzip or zstd", encoding)
	}
	f.buf.Reset()
	limit := int64(min(maxBody, maxRatio*len(body)))
	n, err := f.buf.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", encoding, err)
	}
	if n > limit {
		return nil, errTooLarge
	}
	return f.buf.Bytes(), nil
}

// partsKey names a body that comes in parts.
type partsKey struct {
	exchange string
	kind     event.Kind
}

// assembly is the parts of a body so far.
type assembly struct {
	head  event.Event // of the newest part, without its body
	at    Position    // of it
	parts [][]byte
	have  int
	bytes int
}

// join adds a part of a body. When it was the last one missing, it returns the whole event.
func (a *Analyzer) join(ev *event.Event, at Position) (whole *event.Event, need uint64) {
	if ev.Parts > maxParts || ev.Part < 1 || ev.Part > ev.Parts {
		a.drop(dropParts)
		return nil, 0
	}
	k := partsKey{keyOf(ev), ev.Kind}
	it := a.parts.get(k)
	if it == nil {
		a.parts.add(k, &assembly{parts: make([][]byte, ev.Parts)}, at.Seq, a.now)
		it = a.parts.get(k)
	}
	as := it.value
	as.head, as.at = *ev, at
	as.head.Body = nil
	if ev.Parts != len(as.parts) || as.parts[ev.Part-1] != nil || as.bytes+len(ev.Body) > maxBody {
		a.drop(dropParts)
		return nil, 0
	}
	as.parts[ev.Part-1] = append(make([]byte, 0, max(len(ev.Body), 1)), ev.Body...)
	as.have++
	as.bytes += len(ev.Body)
	a.held += len(ev.Body)
	if as.have == len(as.parts) {
		a.parts.take(k)
		a.held -= as.bytes
		as.head.Body, as.head.Part, as.head.Parts = bytes.Join(as.parts, nil), 1, 1
		return &as.head, it.need
	}
	return nil, 0
}

// giveUpParts takes the oldest body whose parts did not all come, and goes on without a body: the exchange is
// recorded, not judged.
func (a *Analyzer) giveUpParts() {
	it := a.parts.take(a.parts.first().key)
	as := it.value
	a.held -= as.bytes
	if as.head.Origin == event.OriginImport {
		a.drop(dropImport)
		return
	}
	a.drop(dropParts)
	as.head.Capture, as.head.Part, as.head.Parts = event.CaptureNone, 1, 1
	a.half(&as.head, as.at, it.need)
}

package analyzer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds of bodies.
const (
	maxRatio  = 200     // decompressed to compressed
	maxBuffer = 8 << 20 // memory that the inflater keeps for the next body
)

// errTooLarge is wrapped where a body exceeds a bound.
var errTooLarge = errors.New("body is too large")

// inflater decompresses bodies into memory that it reuses.
type inflater struct {
	buf  bytes.Buffer
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

// inflate returns body without its encoding. The result is valid until the next call.
func (f *inflater) inflate(encoding string, body []byte) ([]byte, error) {
	var r io.Reader
	switch src, name := bytes.NewReader(body), strings.ToLower(strings.TrimSpace(encoding)); name {
	case "", "identity":
		if len(body) > limit.BodyBytes {
			return nil, fmt.Errorf("%w: %d bytes", errTooLarge, len(body))
		}
		return body, nil
	case "gzip", "x-gzip":
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		if err := f.gzip.Reset(src); err != nil {
			return nil, fmt.Errorf("read gzip header: %w", err)
		}
		r = f.gzip
	case "zstd":
		if f.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit.BodyBytes), zstd.WithDecoderLowmem(true))
			if err != nil {
				return nil, fmt.Errorf("make zstd decoder: %w", err)
			}
			f.zstd = d
		}
		if err := f.zstd.Reset(src); err != nil {
			return nil, fmt.Errorf("read zstd header: %w", tooLarge(err))
		}
		r = f.zstd
	default:
		return nil, fmt.Errorf("encoding %q is not gzip or zstd", limit.Text(name, 64))
	}
	if f.buf.Reset(); f.buf.Cap() > maxBuffer {
		f.buf = bytes.Buffer{}
	}
	limit := int64(min(limit.BodyBytes, maxRatio*len(body)))
	n, err := f.buf.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", encoding, tooLarge(err))
	}
	if n > limit {
		return nil, fmt.Errorf("%w: %d bytes become more than %d", errTooLarge, len(body), limit)
	}
	return f.buf.Bytes(), nil
}

// tooLarge wraps the zstd decoder's own words for a frame beyond its bounds.
func tooLarge(err error) error {
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fmt.Errorf("%w: %w", errTooLarge, err)
	}
	return err
}

// body is the whole, decompressed body of ev; false when there is none to read. It is valid until the next call.
func (a *Analyzer) body(ev *event.Event, at Position) ([]byte, bool) {
	// With no bodies captured, the start of an error answer is there all the same: it says why.
	onlyError := ev.Capture == event.CaptureNone && ev.Kind == event.Response && ev.Status >= 400
	if ev.Capture == event.CaptureNone && !onlyError || ev.Capture == event.CaptureCut || len(ev.Body) == 0 {
		return nil, false
	}
	body, err := a.inflater.inflate(ev.ContentEncoding, ev.Body)
	if err != nil && onlyError {
		return nil, false // cut inside its compression
	}
	if err != nil {
		reason := dropEncoding
		if errors.Is(err, errTooLarge) {
			reason = dropTooLarge
		}
		a.dead(reason, ev, at, err)
		return nil, false
	}
	return body, true
}

// stub is the first bytes of a body that a hook stubbed; nil when they cannot be read alone.
func stub(ev *event.Event) []byte {
	if ev.Capture != event.CaptureCut || ev.ContentEncoding != "" && ev.ContentEncoding != "identity" {
		return nil
	}
	return ev.Body[:len(ev.Body)/2]
}

// dead counts an event whose content could not be used and hands out what it was.
func (a *Analyzer) dead(reason string, ev *event.Event, at Position, why error) {
	a.drop(reason)
	if !a.emit {
		return
	}
	d := DeadLetter{Reason: reason, Seq: at.Seq, Error: why.Error(), Event: *ev}
	d.Event.Body = bytes.Clone(ev.Body[:min(len(ev.Body), maxDeadBody)])
	a.out.Dead = append(a.out.Dead, d)
}

// unreadable says why an answer that claims success is none of its dialect; nil when it is one, or is an error page, or
// the agent did not read it to its end.
func unreadable(ev *event.Event, r *facts.Response) error {
	if !r.Malformed || ev.Status < 200 || ev.Status > 299 || ev.Error != "" {
		return nil
	}
	if r.Cut {
		return facts.ErrTruncated
	}
	return errors.New("answer is none of its dialect")
}

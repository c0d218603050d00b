// Package payload restores the bodies of events: it joins the parts of a body and decompresses it.
package payload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/analyzer/limit"
)

const (
	maxRatio  = 200     // ratio of decompressed to compressed size
	maxBuffer = 8 << 20 // bytes of the buffer that is retained for the next body
)

// ErrTooLarge is wrapped by errors about bodies that exceed a limit.
var ErrTooLarge = errors.New("body is too large")

// An Inflater decompresses bodies into a reused buffer. The zero value is ready to use.
type Inflater struct {
	buf  bytes.Buffer
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

// Inflate returns the decompressed body. The result is valid until the next call.
func (f *Inflater) Inflate(encoding string, body []byte) ([]byte, error) {
	name := strings.ToLower(strings.TrimSpace(encoding))
	if name == "" || name == "identity" {
		if len(body) > limit.BodyBytes {
			return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(body))
		}
		return body, nil
	}
	var r io.Reader
	switch src := bytes.NewReader(body); name {
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
	bound := int64(min(limit.BodyBytes, maxRatio*len(body)))
	n, err := f.buf.ReadFrom(io.LimitReader(r, bound+1))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", encoding, tooLarge(err))
	}
	if n > bound {
		return nil, fmt.Errorf("%w: %d bytes become more than %d", ErrTooLarge, len(body), bound)
	}
	return f.buf.Bytes(), nil
}

// tooLarge wraps errors of the zstd decoder about oversized frames with ErrTooLarge.
func tooLarge(err error) error {
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

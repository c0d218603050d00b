package llmtap

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
)

// errTooLong is returned for a body longer than maxBody after decoding.
var errTooLong = errors.New("too long")

// unpublishable reports whether the hook supports encoding but readers of events do not. Bodies with such an encoding
// are decoded before they are published.
func unpublishable(encoding string) bool { return encoding == "br" || encoding == "deflate" }

// decoded returns the decoded body of ev. If the body is incomplete, it returns the part that arrived.
func decoded(ev *event.Event, incomplete bool) ([]byte, error) {
	if ev.ContentEncoding == "" {
		return ev.Body, nil
	}
	if truncatedError(ev) {
		body, err := decode(ev.ContentEncoding, ev.Body, errorRead)
		if err != nil && len(body) > 0 {
			body = redact.Truncate(body, len(body)-1)
		}
		return body, nil
	}
	body, err := decode(ev.ContentEncoding, ev.Body, maxBody+1)
	switch {
	case len(body) > maxBody:
		err = errTooLong
	case incomplete && len(body) > 0:
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s body: %w", ev.ContentEncoding, err)
	}
	return body, nil
}

// decode decodes up to limit bytes of b. If it fails, it also returns the bytes decoded before the error.
func decode(encoding string, b []byte, limit int64) ([]byte, error) {
	r, err := decoder(encoding, b)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit))
}

func decoder(encoding string, b []byte) (io.ReadCloser, error) {
	r := bytes.NewReader(b)
	switch encoding {
	case "gzip":
		return gzip.NewReader(r)
	case "deflate":
		// The standard requires a zlib header; some servers omit it.
		if len(b) >= 2 && b[0]&0xf == 8 && (uint(b[0])<<8|uint(b[1]))%31 == 0 {
			return zlib.NewReader(r)
		}
		return flate.NewReader(r), nil
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxBody), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, errors.ErrUnsupported
}

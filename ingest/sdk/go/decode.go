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

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
)

// errTooLong says that a body is longer than maxBody once it is decoded.
var errTooLong = errors.New("it is too long")

// unreadable reports whether readers of events do not know an encoding that the hook does: such a body is decoded before
// it is published.
func unreadable(encoding string) bool { return encoding == "br" || encoding == "deflate" }

// decoded is the body of ev without its encoding. Of a body that was broken off, what came of it is the evidence.
func decoded(ev *event.Event, brokenOff bool) ([]byte, error) {
	if ev.ContentEncoding == "" {
		return ev.Body, nil
	}
	if startOfError(ev) {
		body, err := decode(ev.ContentEncoding, ev.Body, errorRead)
		if err != nil && len(body) > 0 { // that is how far it goes
			body = redact.Truncate(body, len(body)-1)
		}
		return body, nil
	}
	body, err := decode(ev.ContentEncoding, ev.Body, maxBody+1)
	switch {
	case len(body) > maxBody:
		err = errTooLong
	case brokenOff && len(body) > 0:
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("decode a body of encoding %s: %w", ev.ContentEncoding, err)
	}
	return body, nil
}

// decode returns what b decodes to, up to limit bytes; on an error, what came before it.
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
		// With a zlib header, as the standard says, or without, as some servers send it.
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

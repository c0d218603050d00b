package httpd

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// maxText is the maximum size of a statement with its inline data. Data in formats other than Values is streamed and
// has no limit.
const maxText = 64 << 20

// A request contains the parameters in the URL and the headers of an HTTP request. The body has not been read yet.
type request struct {
	http     *http.Request
	readOnly bool
	url      url.Values
	queryID  string // chosen by the client; used only in logs
	comment  string // value of log_comment; begins with a nonce, so that KILL QUERY matches only this statement
	settings []setting
	params   map[string]string
	format   string // default output format
}

type setting struct{ name, value string }

// notSettings contains the URL parameters that are not settings. All other URL parameters, except for param_…, are
// settings.
var notSettings = map[string]bool{
	"query": true, "query_id": true, "database": true, "default_format": true, "user": true, "password": true, "quota_key": true,
	"session_id": true, "session_timeout": true, "session_check": true, "close_session": true, "role": true,
	"compress": true, "decompress": true, "enable_http_compression": true, "http_zlib_compression_level": true,
	"network_compression_method": true, "network_zstd_compression_level": true, "client_protocol_version": true,
	"wait_end_of_query": true, "buffer_size": true, "stacktrace": true, "send_progress_in_http_headers": true,
	"log_comment": true,
}

func newRequest(r *http.Request) (*request, error) {
	q := r.URL.Query()
	req := &request{http: r, url: q, queryID: q.Get("query_id"), format: "TabSeparated", params: map[string]string{}}
	id := nonce()
	if req.queryID == "" {
		req.queryID = id
	}
	req.comment = strings.TrimSpace(id + " " + q.Get("log_comment"))
	if f := r.Header.Get("X-ClickHouse-Format"); f != "" {
		req.format = f
	} else if f := q.Get("default_format"); f != "" {
		req.format = f
	}
	for name := range q {
		if p, ok := strings.CutPrefix(name, "param_"); ok {
			req.params[p] = q.Get(name)
			continue
		}
		if notSettings[name] {
			continue
		}
		if !identifier(name) { // the name becomes part of a SET statement
			return req, exceptionf(proto.ErrUnknownSetting, "Unknown setting %q", name)
		}
		req.settings = append(req.settings, setting{name, q.Get(name)})
	}
	slices.SortFunc(req.settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return req, exceptionf(proto.ErrNotImplemented, "External tables are not supported by the embedded ClickHouse")
	}
	return req, nil
}

func (q *request) on(name string) bool {
	v := q.url.Get(name)
	return v == "1" || v == "true"
}

func identifier(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// setSQL returns the statement that applies the settings of the request to a connection.
func (q *request) setSQL() string {
	var b strings.Builder
	b.WriteString("SET log_comment = " + sqltext.QuoteString(q.comment))
	for _, s := range q.settings {
		b.WriteString(", " + s.name + " = " + sqltext.QuoteString(s.value))
	}
	return b.String()
}

// resetSQL returns the statement that reverts setSQL.
func (q *request) resetSQL() string {
	var b strings.Builder
	b.WriteString("SET log_comment = DEFAULT")
	for _, s := range q.settings {
		b.WriteString(", " + s.name + " = DEFAULT")
	}
	return b.String()
}

// body returns the decompressed body of the request. The reader returns io.EOF only if the body is complete. A broken
// connection or a truncated compressed stream or block is a different error.
func (q *request) body() (io.Reader, error) {
	raw := &stickyReader{r: q.http.Body}
	b, err := decoder(q.http.Header.Get("Content-Encoding"), raw)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return http.NoBody, nil // compressed, but empty
	}
	if err != nil {
		return nil, err
	}
	if q.on("decompress") {
		b = compress.NewReader(&frameReader{r: b})
	}
	return &completeReader{r: b, raw: raw}, nil
}

func decoder(encoding string, raw io.Reader) (io.Reader, error) {
	var r io.Reader
	var err error
	switch encoding {
	case "", "identity":
		r = raw
	case "gzip":
		r, err = gzip.NewReader(raw)
	case "deflate":
		r, err = zlib.NewReader(raw)
	case "br":
		r = brotli.NewReader(raw)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1)); err == nil {
			r = z.IOReadCloser()
		}
	default:
		return nil, exceptionf(proto.ErrNotImplemented, "Unknown HTTP content encoding %q", encoding)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s body: %w", encoding, err)
	}
	return r, nil
}

// A stickyReader repeats its error. The body of a request that ends too early returns io.ErrUnexpectedEOF once and then io.EOF, and
// decoders take the first for the end between two frames.
type stickyReader struct {
	r   io.Reader
	err error
}

func (s *stickyReader) Read(p []byte) (n int, err error) {
	if s.err == nil {
		n, s.err = s.r.Read(p)
	}
	return n, s.err
}

// A completeReader returns io.EOF at the end of the decoded data only if the raw body is also complete.
type completeReader struct{ r, raw io.Reader }

func (w *completeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err == nil || !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	if _, err := io.Copy(io.Discard, w.raw); err != nil {
		return n, err
	}
	return n, io.EOF
}

// A frameReader reads ClickHouse's compressed frames and returns io.ErrUnexpectedEOF for a truncated frame. The
// decompressor alone would return io.EOF if a frame is truncated after its header.
type frameReader struct {
	r    io.Reader
	head [frameHead]byte // frame header
	have int             // number of bytes in head
	left int             // number of bytes of the frame, after its header, not read yet
}

// frameHead is the size of a frame header: checksum (16), method (1), compressed size (4), plain size (4). The
// compressed size includes the last 9 bytes of the header.
const frameHead = 16 + 9

func (f *frameReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	for b := p[:n]; len(b) > 0; {
		if f.left > 0 {
			k := min(f.left, len(b))
			f.left -= k
			b = b[k:]
			continue
		}
		k := copy(f.head[f.have:], b)
		f.have += k
		b = b[k:]
		if f.have == frameHead {
			f.have = 0
			f.left = max(0, int(binary.LittleEndian.Uint32(f.head[17:]))-9)
		}
	}
	if errors.Is(err, io.EOF) && (f.have > 0 || f.left > 0) {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// readText returns the statement in the body.
func readText(body io.Reader) (string, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(body, maxText+1))
	if err != nil {
		return "", fmt.Errorf("read statement: %w", err)
	}
	if n > maxText {
		return "", exceptionf(proto.ErrSyntaxError, "Statement is longer than %d bytes; stream the data of an INSERT in a format other than Values", maxText)
	}
	return b.String(), nil
}

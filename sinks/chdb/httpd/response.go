package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/chdb/engine"
)

// joinable contains the formats whose chunks can be concatenated. Output in other formats has a header or a footer and
// is written in one piece.
var joinable = map[string]bool{
	"Native": true, "RowBinary": true, "TabSeparated": true, "TSV": true, "TabSeparatedRaw": true, "TSVRaw": true, "CSV": true,
	"JSONEachRow": true, "JSONLines": true, "NDJSON": true, "JSONCompactEachRow": true, "LineAsString": true, "Null": true,
}

// A response is not compressed by HTTP's content codings, which cost more than they save on the loopback interface, only by
// ClickHouse's own compression if the client requests that. It sends its header with the first byte of output, so that an
// exception before the first byte can set the status. A later exception is framed into the stream.
type response struct {
	w       http.ResponseWriter
	server  Server
	started bool
	native  *compress.Writer // writer of ClickHouse's own compression; nil if not used
	tag     string           // marks the frame of a late exception; also sent in the header
	limit   int64            // bytes of output; 0: no limit
	written int64            // bytes of output so far
}

func newResponse(w http.ResponseWriter, req *request, server Server) *response {
	res := &response{w: w, server: server, tag: strings.ToLower(nonce()[:16])}
	if limit, err := strconv.ParseInt(req.url.Get("max_result_bytes"), 10, 64); err == nil && req.url.Get("result_overflow_mode") != "break" {
		res.limit = limit
	}
	hd := w.Header()
	hd.Set("X-ClickHouse-Query-Id", req.queryID)
	hd.Set("X-ClickHouse-Server-Display-Name", server.DisplayName)
	hd.Set("X-ClickHouse-Timezone", server.Timezone)
	if req.on("compress") {
		method := compress.LZ4
		switch strings.ToUpper(req.url.Get("network_compression_method")) {
		case "ZSTD":
			method = compress.ZSTD
		case "NONE":
			method = compress.None
		}
		res.native = compress.NewWriter(compress.LevelZero, method)
	}
	return res
}

// format sets the headers that state the output format.
func (r *response) format(name string) {
	r.w.Header().Set("X-ClickHouse-Format", name)
	r.w.Header().Set("Content-Type", contentType(name))
}

func contentType(format string) string {
	switch {
	case strings.HasPrefix(format, "JSON") && (strings.Contains(format, "EachRow") || format == "JSONLines"), format == "NDJSON":
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "JSON"):
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=absent"
	case strings.HasPrefix(format, "TabSeparated"), strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case format == "Native", strings.HasPrefix(format, "RowBinary"):
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}

// summary adds the statistics of the whole statement to the header, which must not have been sent yet.
func (r *response) summary(st engine.Stats) {
	b, err := json.Marshal(map[string]string{
		"read_rows": strconv.FormatUint(st.ReadRows, 10), "read_bytes": strconv.FormatUint(st.ReadBytes, 10),
		"written_rows": strconv.FormatUint(st.WrittenRows, 10), "written_bytes": strconv.FormatUint(st.WrittenBytes, 10),
		"total_rows_to_read": "0",
		"result_rows":        strconv.FormatUint(st.ResultRows, 10), "result_bytes": strconv.FormatUint(st.ResultBytes, 10),
		"elapsed_ns": strconv.FormatInt(st.Elapsed.Nanoseconds(), 10),
	})
	if err == nil {
		r.w.Header().Set("X-ClickHouse-Summary", string(b))
	}
}

func (r *response) start() {
	if !r.started {
		r.started = true
		r.w.Header().Set("X-ClickHouse-Exception-Tag", r.tag)
		r.w.WriteHeader(http.StatusOK)
	}
}

// nativeBlock is the maximum uncompressed size of a compressed frame, the same as in a ClickHouse server.
const nativeBlock = 1 << 20

func (r *response) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	// The engine does not check max_result_bytes if a block is the whole result, and clients read a block at once.
	if r.written += int64(len(b)); r.limit > 0 && r.written > r.limit {
		return 0, exceptionf(proto.ErrTooManyRowsOrBytes, "Limit for result exceeded, max bytes: %d", r.limit)
	}
	r.start()
	if r.native == nil {
		return r.w.Write(b)
	}
	written := 0
	for written < len(b) {
		part := b[written:min(len(b), written+nativeBlock)]
		if err := r.native.Compress(part); err != nil {
			return written, fmt.Errorf("compress response: %w", err)
		}
		if _, err := r.w.Write(r.native.Data); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// flush sends the output written so far, so that clients see the first rows of a slow SELECT early.
func (r *response) flush() error {
	if err := http.NewResponseController(r.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// finish completes a response without an exception.
func (r *response) finish() {
	if !r.started {
		r.w.WriteHeader(http.StatusOK)
	}
}

// maxLateException is the maximum length of an exception inside a stream. Clients read at most 16 KiB.
const maxLateException = 15 << 10

// fail sends err with an error status or, if the response has started, as a frame in the stream. If the client has
// disconnected, it aborts the response.
func (r *response) fail(err error, ctx context.Context) {
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // otherwise the output would look complete
	}
	code := codeOf(err, ctx)
	msg := fmt.Sprintf("Code: %d. DB::Exception: %s. (STD_EXCEPTION)", int(code), err)
	if e, ok := errors.AsType[*engine.Error](err); ok {
		msg = e.Message
	}
	msg += " (version " + r.server.Version + " (official build))"
	if !r.started {
		hd := r.w.Header()
		hd.Set("X-ClickHouse-Exception-Code", strconv.Itoa(int(code)))
		hd.Set("Content-Type", "text/plain; charset=UTF-8")
		r.w.WriteHeader(statusOf(code))
		_, _ = io.WriteString(r.w, msg+"\n")
		return
	}
	msg = msg[:min(len(msg), maxLateException)]
	_, _ = fmt.Fprintf(r.w, "\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n", r.tag, msg, len(msg)+1, r.tag)
}

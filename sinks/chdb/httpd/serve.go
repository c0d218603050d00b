package httpd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/chdb/statement"
	"github.com/llmtap/llmtap/sinks/sqltext"
)

// killInterval is the interval between attempts to kill the statement of a disconnected client. The first attempt may
// be too early, because the statement may not be in the engine's process list yet.
const killInterval = 250 * time.Millisecond

// serve runs the statement of req and writes its output to res.
func (h *Handler) serve(ctx context.Context, req *request, res *response) (Query, error) {
	var done Query
	body, err := req.body()
	if err != nil {
		return done, err
	}
	text, st, err := readStatement(req, body)
	if err != nil {
		return done, err
	}
	switch st.Kind {
	case statement.Select:
		done.Kind = "select"
	case statement.Insert:
		done.Kind = "insert"
	case statement.Empty:
		return done, exceptionf(proto.ErrSyntaxError, "Empty query")
	case statement.Other: // classified by the engine's parser
	}
	if st.Several {
		return done, exceptionf(proto.ErrSyntaxError, "Multi-statements are not allowed")
	}
	if st.Rejected != "" {
		return done, exceptionf(proto.ErrAccessDenied, "The embedded ClickHouse does not allow %s", st.Rejected)
	}
	if isHello(text, req.format) {
		return done, h.hello(req, res)
	}
	release, err := h.slot(ctx)
	if err != nil {
		return done, err
	}
	defer release()

	conn, releaseConn, err := h.conn(req)
	if err != nil {
		return done, err
	}
	defer releaseConn()
	// SET must be first. On the connection of a session, it absorbs the partial output of a failed statement.
	if err := conn.Exec(req.setSQL()); err != nil {
		return done, err
	}
	if db := req.url.Get("database"); db != "" && db != "default" {
		if err := conn.Exec("USE " + sqltext.QuoteName(db)); err != nil {
			return done, err
		}
	}
	stop := h.killWhenDone(ctx, req.comment)
	defer stop()

	var stats engine.Stats
	if streamed(st) {
		stats, err = insert(conn, req, st, body)
		if err == nil {
			res.summary(stats)
		}
	} else {
		stats, err = h.run(conn, req, res, text, st, &done)
	}
	done.ReadRows, done.WrittenRows = stats.ReadRows, stats.WrittenRows
	return done, err
}

// streamed reports whether the data of st is written to an insert stream.
func streamed(st statement.Statement) bool {
	return st.Kind == statement.Insert && st.Format != "" && !strings.EqualFold(st.Format, "Values")
}

// readStatement returns the text of the statement in the URL and the body, and the parsed statement. As in ClickHouse,
// the body continues a statement in the URL, unless it is the data of an insert stream.
func readStatement(req *request, body io.Reader) (string, statement.Statement, error) {
	text := req.url.Get("query")
	st := statement.Parse(text)
	if streamed(st) {
		return text, st, nil
	}
	more, err := readText(body)
	if err != nil {
		return "", st, err
	}
	switch {
	case text == "":
		text = more
	case more != "":
		text += "\n" + more
	}
	return text, statement.Parse(text), nil
}

// conn returns a connection for one request. The caller must call release.
func (h *Handler) conn(req *request) (conn *engine.Conn, release func(), err error) {
	if id := req.url.Get("session_id"); id != "" {
		s, err := h.sessions.take(id, req.on("session_check"), req.url.Get("session_timeout"))
		if err != nil {
			return nil, nil, err
		}
		return s.conn, func() {
			// This also absorbs the partial output of a failed statement. An error is ignored, because a setting that
			// was rejected can be neither set nor reset.
			_ = s.conn.Exec(req.resetSQL())
			h.sessions.release(id, s, req.on("close_session"))
		}, nil
	}
	c, err := h.cfg.Connect()
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

// killWhenDone kills the statement with this comment once ctx is done. It repeats the attempt until stop is called.
func (h *Handler) killWhenDone(ctx context.Context, comment string) (stop func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	cancel := context.AfterFunc(ctx, func() {
		defer wg.Done()
		conn, err := h.cfg.Connect()
		if err != nil {
			return
		}
		defer conn.Close()
		t := time.NewTicker(killInterval)
		defer t.Stop()
		for {
			_ = conn.Exec("KILL QUERY WHERE Settings['log_comment'] = " + sqltext.QuoteString(comment) + " ASYNC")
			select {
			case <-ended:
				return
			case <-t.C:
			}
		}
	})
	return func() {
		close(ended)
		if cancel() {
			wg.Done()
		}
		wg.Wait()
	}
}

// insertChunk is the size of each write to the engine.
const insertChunk = 256 << 10

var chunks = sync.Pool{New: func() any { return new([insertChunk]byte) }}

// insert streams the data in st, followed by the body, to the engine. It commits only complete data.
func insert(conn *engine.Conn, req *request, st statement.Statement, body io.Reader) (engine.Stats, error) {
	if req.readOnly {
		return engine.Stats{}, errReadonly
	}
	ins, err := conn.Insert(st.Head, st.Format, req.params)
	if err != nil {
		return engine.Stats{}, err
	}
	defer ins.Close()
	buf := chunks.Get().(*[insertChunk]byte)
	defer chunks.Put(buf)
	if st.Data != "" {
		body = io.MultiReader(strings.NewReader(st.Data), body)
	}
	for {
		n, complete, err := fill(body, buf[:])
		if err != nil {
			ins.Cancel()
			return engine.Stats{}, fmt.Errorf("read data: %w", err)
		}
		if _, err := ins.Write(buf[:n]); err != nil {
			ins.Cancel()
			return engine.Stats{}, err
		}
		if complete {
			return ins.Commit()
		}
	}
}

// fill reads until buf is full or r ends; complete reports that r ended. io.ReadFull does not distinguish a short body
// from a truncated one: both return io.ErrUnexpectedEOF.
func fill(r io.Reader, buf []byte) (n int, complete bool, err error) {
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

var errReadonly = exceptionf(proto.ErrReadonly, "Cannot execute query in readonly mode. The user reader, and method GET, only read")

// run runs any statement that is not an insert stream.
func (h *Handler) run(conn *engine.Conn, req *request, res *response, text string, st statement.Statement, done *Query) (engine.Stats, error) {
	a, err := conn.Classify(text)
	switch {
	case err != nil:
		return engine.Stats{}, err
	case a.Statements > 1:
		return engine.Stats{}, exceptionf(proto.ErrSyntaxError, "Multi-statements are not allowed")
	case a.Class == engine.Control && (st.Kind == statement.Select || st.Kind == statement.Insert):
		return engine.Stats{}, exceptionf(proto.ErrAccessDenied, "The embedded ClickHouse does not write outside its tables")
	case a.Class != engine.ReadOnly && req.readOnly:
		return engine.Stats{}, errReadonly
	case done.Kind == "" && (a.Class == engine.Mutating || a.Class == engine.MutatingGlobal):
		done.Kind = "ddl"
	}
	output := "Null"
	if st.Kind != statement.Insert {
		output = req.format
		format := cmp.Or(st.Format, req.format)
		res.format(format)
		if st.Kind == statement.Select && a.Class == engine.ReadOnly && joinable[format] {
			return stream(conn, req, res, text)
		}
	}
	var stats engine.Stats
	err = conn.Query(text, output, req.params, func(out []byte, s engine.Stats) error {
		stats = s
		res.summary(s)
		_, err := res.Write(out)
		return err
	})
	return stats, err
}

// stream runs a SELECT and writes its chunks to res one by one.
func stream(conn *engine.Conn, req *request, res *response, text string) (engine.Stats, error) {
	var stats engine.Stats
	s, err := conn.Stream(text, req.format, req.params)
	if err != nil {
		return stats, err
	}
	defer s.Close()
	for {
		more, err := s.Next(func(chunk []byte, st engine.Stats) error {
			stats = st
			if _, err := res.Write(chunk); err != nil {
				return err
			}
			return res.flush()
		})
		if err != nil || !more {
			return stats, err
		}
		if err := req.http.Context().Err(); err != nil {
			return stats, err
		}
	}
}

// isHello reports whether text is the first query of a clickhouse-go connection.
func isHello(text, format string) bool {
	return format == "Native" && strings.TrimSpace(text) == "SELECT displayName(), version(), revision(), timezone()"
}

// hello answers the first query of a clickhouse-go connection. The answer is encoded at the client's revision and sets
// revision 0 for all later queries.
func (h *Handler) hello(req *request, res *response) error {
	revision := 0
	if v := req.url.Get("client_protocol_version"); v != "" {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return exceptionf(proto.ErrSyntaxError, "client_protocol_version is not a number: %q", v)
		}
		revision = int(n)
	}
	var name, version, timezone proto.ColStr
	name.Append(h.cfg.Server.DisplayName)
	version.Append(h.cfg.Server.Version)
	timezone.Append(h.cfg.Server.Timezone)
	block := proto.Block{Columns: 4, Rows: 1}
	var buf proto.Buffer
	if proto.FeatureBlockInfo.In(revision) {
		block.Info.BucketNum = -1
	}
	err := block.EncodeBlock(&buf, revision, []proto.InputColumn{
		{Name: "displayName()", Data: name},
		{Name: "version()", Data: version},
		{Name: "revision()", Data: proto.ColUInt32{0}},
		{Name: "timezone()", Data: timezone},
	})
	if err != nil {
		return fmt.Errorf("encode hello: %w", err)
	}
	res.format("Native")
	_, err = res.Write(buf.Buf)
	return err
}

package engine

import "errors"

// A Stream is a SELECT with output in chunks. Each chunk is a complete document of its format, so only formats without header
// and footer (Native, TabSeparated, JSONEachRow …) can be concatenated.
type Stream struct {
	conn *Conn
	r    ptr
	done bool // the last chunk was fetched, or the statement failed
}

// Stream starts sql, which must be a SELECT.
func (c *Conn) Stream(sql, format string, params map[string]string) (*Stream, error) {
	r := c.call(c.lib.streamQuery, sql, format, params)
	if r == nil {
		return nil, errors.New("stream from libchdb: no result")
	}
	if err := c.lib.err(r); err != nil {
		c.lib.destroyResult(r)
		return nil, err
	}
	return &Stream{conn: c, r: r}, nil
}

// Next passes the next chunk to use. The slice is C memory, valid only during the call. It returns false at the end. A failed
// statement stays in system.processes until the connection runs another one or is closed.
func (s *Stream) Next(use func(chunk []byte, st Stats) error) (bool, error) {
	if s.done {
		return false, nil
	}
	lib := s.conn.lib
	r := lib.streamFetch(s.conn.handle(), s.r)
	if r == nil {
		s.done = true
		return false, errors.New("stream from libchdb: no chunk")
	}
	defer lib.destroyResult(r)
	if err := lib.err(r); err != nil {
		s.done = true
		return false, err
	}
	b, st := lib.bytes(r), lib.stats(r)
	if len(b) == 0 && st.ResultRows == 0 {
		s.done = true
		return false, nil
	}
	return true, use(b, st)
}

// Close cancels the statement if it is running and frees the stream.
func (s *Stream) Close() {
	if s.r == nil {
		return
	}
	if !s.done { // cancelling a completed stream crashed older engines
		s.conn.lib.streamCancel(s.conn.handle(), s.r)
	}
	s.conn.lib.destroyResult(s.r)
	s.r = nil
}

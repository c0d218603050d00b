package engine

import (
	"errors"
	"runtime"
)

// A Stream is a running SELECT whose output is returned in chunks. Each chunk is a complete document of its format, so
// only formats without a header and a footer (Native, TabSeparated, JSONEachRow …) can be concatenated.
type Stream struct {
	conn *Conn
	r    ptr
	done bool // the last chunk has been fetched, or the statement has failed
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

// Next passes the next chunk to use. The chunk is C memory and valid only during the call. Next returns false at the
// end. A failed statement stays in system.processes until the connection runs another statement or is closed.
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

// An Insert is an INSERT whose data is written in pieces. Data is guaranteed to be stored only after Commit has
// returned a nil error.
type Insert struct {
	conn *Conn
	p    ptr
}

// Insert starts sql, an INSERT without a FORMAT clause and data. The data must be in the given format.
func (c *Conn) Insert(sql, format string, params map[string]string) (*Insert, error) {
	h := c.call(c.lib.insert, sql, format, params)
	if h == nil {
		return nil, errors.New("insert into libchdb: no stream")
	}
	i := &Insert{conn: c, p: h}
	if err := i.err(); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

func (i *Insert) err() error {
	if e := i.conn.lib.insertError(i.p); e != "" {
		return newError(e)
	}
	return nil
}

// Write passes b to the engine, which copies it. Write blocks while the engine is busy.
func (i *Insert) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	failed := i.conn.lib.insertAppend(i.p, ptr(&b[0]), uintptr(len(b))) != 0
	runtime.KeepAlive(b)
	if !failed {
		return len(b), nil
	}
	if err := i.err(); err != nil {
		return 0, err
	}
	return 0, errors.New("insert into libchdb: the engine accepts no more data")
}

// Commit ends the data and waits until all of it is stored.
func (i *Insert) Commit() (Stats, error) {
	r := i.conn.lib.insertDone(i.p)
	if r == nil {
		return Stats{}, errors.New("insert into libchdb: no result")
	}
	defer i.conn.lib.destroyResult(r)
	return i.conn.lib.stats(r), i.conn.lib.err(r)
}

// Cancel discards the data written so far.
func (i *Insert) Cancel() { i.conn.lib.insertCancel(i.p) }

// Close frees the stream and cancels it unless it was committed.
func (i *Insert) Close() {
	if i.p != nil {
		i.conn.lib.insertDestroy(i.p)
		i.p = nil
	}
}

package engine

import (
	"errors"
	"runtime"
)

// An Insert is an INSERT whose data is written in pieces. No data is guaranteed to be stored before Commit returns nil.
type Insert struct {
	conn *Conn
	p    ptr
}

// Insert starts sql, an INSERT without FORMAT clause and data. The data is in format.
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

// Write passes data to the engine, which copies it. It blocks while the engine is busy.
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

// Commit completes the data and waits until it is stored.
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

// Close frees the stream, which is cancelled unless it was committed.
func (i *Insert) Close() {
	if i.p != nil {
		i.conn.lib.insertDestroy(i.p)
		i.p = nil
	}
}

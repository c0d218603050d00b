package engine

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// A Conn is a connection. It has its own settings, current database and temporary tables, and runs one statement at a
// time.
type Conn struct {
	lib *Library
	p   ptr // a chdb_connection *; the C functions expect the chdb_connection
}

func (c *Conn) handle() ptr { return *(*ptr)(c.p) }

// Close closes the connection. Closing the last connection of the process stops the engine. A second call does nothing.
func (c *Conn) Close() {
	if c.p != nil {
		c.lib.closeConn(c.p)
		c.p = nil
	}
}

// Stats are the statistics of a statement or, in a stream, of one chunk.
type Stats struct {
	Elapsed                   time.Duration
	ResultRows, ResultBytes   uint64
	ReadRows, ReadBytes       uint64 // read from storage
	WrittenRows, WrittenBytes uint64 // including materialised views
}

func (l *Library) stats(r ptr) Stats {
	return Stats{
		Elapsed:    time.Duration(l.resultElapsed(r) * float64(time.Second)),
		ResultRows: l.resultRows(r), ResultBytes: l.resultBytes(r),
		ReadRows: l.resultReadRows(r), ReadBytes: l.resultReadBytes(r),
		WrittenRows: l.resultWrittenRows(r), WrittenBytes: l.resultWrittenBytes(r),
	}
}

// bytes returns the output of r. It is C memory and valid until r is destroyed.
func (l *Library) bytes(r ptr) []byte {
	n := l.resultLength(r)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(l.resultBuffer(r)), n)
}

func (l *Library) err(r ptr) error {
	if e := l.resultError(r); e != "" {
		return newError(e)
	}
	return nil
}

func (c *Conn) call(f statementFunc, sql, format string, params map[string]string) ptr {
	p := newParams(params)
	defer p.unpin()
	r := f(c.handle(), text(sql), uintptr(len(sql)), text(format), uintptr(len(format)),
		p.names, p.nameLens, p.values, p.valueLens, uintptr(len(params)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	return r
}

// Query runs sql and calls use, if not nil, with the whole output in the given format. params are the values of
// {name:Type} in sql. out is C memory and valid only during the call.
func (c *Conn) Query(sql, format string, params map[string]string, use func(out []byte, st Stats) error) error {
	r := c.call(c.lib.query, sql, format, params)
	if r == nil {
		return errors.New("query libchdb: no result")
	}
	defer c.lib.destroyResult(r)
	if err := c.lib.err(r); err != nil {
		return err
	}
	if use == nil {
		return nil
	}
	return use(c.lib.bytes(r), c.lib.stats(r))
}

// Exec runs sql and discards its output.
func (c *Conn) Exec(sql string) error { return c.Query(sql, "Null", nil, nil) }

// A Class is the effect of a statement on persistent state.
type Class uint32

// The classes, from least to most restricted.
const (
	ReadOnly       Class = iota // SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS, CHECK
	Mutating                    // INSERT, CREATE, ALTER, DROP, …
	MutatingGlobal              // functions, users, writes to the system database
	Control                     // USE, SET, SYSTEM, KILL, …; INTO OUTFILE; INSERT INTO FUNCTION
	Unknown                     // a statement that cannot be parsed
)

// An Analysis is the result of Classify.
type Analysis struct {
	Statements int // 0 if the text cannot be parsed
	Class      Class
}

// Classify parses sql with the engine without running it. It takes about 0.1 ms.
func (c *Conn) Classify(sql string) (Analysis, error) {
	var out struct{ size, count, flags, class uint32 } // chdb_query_analysis_v1
	out.size = uint32(unsafe.Sizeof(out))
	if c.lib.classify(c.handle(), text(sql), uintptr(len(sql)), nil, 0, ptr(&out)) != 0 {
		return Analysis{}, errors.New("classify statement: libchdb failed")
	}
	runtime.KeepAlive(sql)
	return Analysis{Statements: int(out.count), Class: Class(out.class)}, nil
}

// empty provides a pointer for empty strings, whose data pointer may be nil in Go.
var empty [1]byte

func text(s string) ptr {
	if s == "" {
		return ptr(&empty)
	}
	return ptr(unsafe.StringData(s))
}

// params contains named parameters as four parallel arrays, the form that the C interface requires. They are pinned
// until unpin.
type params struct {
	pin                                runtime.Pinner
	names, nameLens, values, valueLens ptr
}

func newParams(m map[string]string) *params {
	p := &params{}
	if len(m) == 0 {
		return p
	}
	names, values := make([]ptr, 0, len(m)), make([]ptr, 0, len(m))
	nameLens, valueLens := make([]uintptr, 0, len(m)), make([]uintptr, 0, len(m))
	for k, v := range m {
		names, nameLens = append(names, p.pinned(k)), append(nameLens, uintptr(len(k)))
		values, valueLens = append(values, p.pinned(v)), append(valueLens, uintptr(len(v)))
	}
	p.pin.Pin(&names[0])
	p.pin.Pin(&values[0])
	p.pin.Pin(&nameLens[0])
	p.pin.Pin(&valueLens[0])
	p.names, p.nameLens = ptr(&names[0]), ptr(&nameLens[0])
	p.values, p.valueLens = ptr(&values[0]), ptr(&valueLens[0])
	return p
}

func (p *params) pinned(s string) ptr {
	t := text(s)
	p.pin.Pin((*byte)(t))
	return t
}

func (p *params) unpin() { p.pin.Unpin() }

// An Error is an exception of the engine.
type Error struct {
	Code    int    // ClickHouse's error code; 1001 (STD_EXCEPTION) if the text contains no code
	Message string // "Code: 60. DB::Exception: … (UNKNOWN_TABLE)"
}

func (e *Error) Error() string { return e.Message }

func newError(msg string) *Error {
	msg = strings.TrimSpace(msg)
	if i := strings.Index(msg, "Code: "); i >= 0 {
		digits, _, ok := strings.Cut(msg[i+len("Code: "):], ".")
		if code, err := strconv.Atoi(digits); ok && err == nil && code > 0 {
			return &Error{Code: code, Message: msg[i:]}
		}
	}
	return &Error{Code: 1001, Message: "Code: 1001. DB::Exception: " + msg + " (STD_EXCEPTION)"}
}

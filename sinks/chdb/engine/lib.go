package engine

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Version is the version of the header that the signatures and struct layouts below are from. A library of another version may
// be used after a check of its behavior (see package chdb).
const Version = "26.7.3"

type ptr = unsafe.Pointer

// A statementFunc is a C function that runs or starts the statement q with parameters. f is the format of its output or
// data.
type statementFunc func(conn, q ptr, qn uintptr, f ptr, fn uintptr, names, nameLens, values, valueLens ptr, n uintptr) ptr

// A Library is a loaded libchdb. It stays loaded until the process ends.
type Library struct {
	setSignalHandlers func(enabled int32)
	connect           func(argc int32, argv ptr) ptr
	closeConn         func(conn ptr)
	query             statementFunc
	streamQuery       statementFunc
	streamFetch       func(conn, stream ptr) ptr
	streamCancel      func(conn, stream ptr)
	destroyResult     func(result ptr)
	insert            statementFunc
	insertAppend      func(stream ptr, data ptr, n uintptr) int32
	insertDone        func(stream ptr) ptr
	insertCancel      func(stream ptr)
	insertError       func(stream ptr) string
	insertDestroy     func(stream ptr)
	classify          func(conn ptr, q ptr, qn uintptr, db ptr, dbn uintptr, out ptr) int32

	resultBuffer       func(result ptr) ptr
	resultLength       func(result ptr) uintptr
	resultError        func(result ptr) string
	resultElapsed      func(result ptr) float64
	resultRows         func(result ptr) uint64
	resultBytes        func(result ptr) uint64
	resultReadRows     func(result ptr) uint64
	resultReadBytes    func(result ptr) uint64
	resultWrittenRows  func(result ptr) uint64
	resultWrittenBytes func(result ptr) uint64
}

// Load opens the shared library at path, which must have all symbols, and disables its signal handlers.
func Load(path string) (*Library, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load libchdb: %w", err)
	}
	l := &Library{}
	for _, s := range []struct {
		fn   any
		name string
	}{
		{&l.setSignalHandlers, "chdb_set_signal_handlers_enabled"},
		{&l.connect, "chdb_connect"},
		{&l.closeConn, "chdb_close_conn"},
		{&l.query, "chdb_query_with_params_n"},
		{&l.streamQuery, "chdb_stream_query_with_params_n"},
		{&l.streamFetch, "chdb_stream_fetch_result"},
		{&l.streamCancel, "chdb_stream_cancel_query"},
		{&l.destroyResult, "chdb_destroy_query_result"},
		{&l.insert, "chdb_stream_insert_with_params_n"},
		{&l.insertAppend, "chdb_stream_append"},
		{&l.insertDone, "chdb_stream_done"},
		{&l.insertCancel, "chdb_stream_cancel_insert"},
		{&l.insertError, "chdb_stream_insert_error"},
		{&l.insertDestroy, "chdb_destroy_insert_stream"},
		{&l.classify, "chdb_classify_query_n"},
		{&l.resultBuffer, "chdb_result_buffer"},
		{&l.resultLength, "chdb_result_length"},
		{&l.resultError, "chdb_result_error"},
		{&l.resultElapsed, "chdb_result_elapsed"},
		{&l.resultRows, "chdb_result_rows_read"},
		{&l.resultBytes, "chdb_result_bytes_read"},
		{&l.resultReadRows, "chdb_result_storage_rows_read"},
		{&l.resultReadBytes, "chdb_result_storage_bytes_read"},
		{&l.resultWrittenRows, "chdb_result_rows_written"},
		{&l.resultWrittenBytes, "chdb_result_bytes_written"},
	} {
		sym, err := purego.Dlsym(h, s.name)
		if err != nil {
			return nil, fmt.Errorf("load libchdb: %w; is it as new as version %s?", err, Version)
		}
		purego.RegisterFunc(s.fn, sym)
	}
	// This must precede the first connect. Otherwise the engine replaces the handlers of SIGSEGV and other signals
	// without SA_ONSTACK, and the first nil dereference shuts the engine down instead of causing a Go panic.
	l.setSignalHandlers(0)
	return l, nil
}

// Connect opens a connection. The first call starts the engine with args ("--path=DIR", "--config-file=FILE"); later
// calls must pass the same "--path". The engine reports the reason for a failure only on stderr.
func (l *Library) Connect(args ...string) (*Conn, error) {
	args = append([]string{"clickhouse"}, args...)
	var pin runtime.Pinner
	defer pin.Unpin()
	argv := make([]ptr, len(args)+1) // ends with NULL, like the argv of main
	for i, a := range args {
		b := append([]byte(a), 0)
		pin.Pin(&b[0])
		argv[i] = ptr(&b[0])
	}
	pin.Pin(&argv[0])
	p := l.connect(int32(len(args)), ptr(&argv[0]))
	if p == nil {
		return nil, errors.New("connect to libchdb: the engine failed; the reason is on stderr")
	}
	return &Conn{lib: l, p: p}, nil
}

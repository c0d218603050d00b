package engine

import (
	"strconv"
	"strings"
)

// An Error is an exception of the engine.
type Error struct {
	Code    int    // ClickHouse's code, 1001 (STD_EXCEPTION) if the text has none
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

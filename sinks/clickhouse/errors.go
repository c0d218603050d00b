package clickhouse

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// A fault is the class of an insert error, and the reason label of metrics.errors.
type fault string

const (
	faultServer fault = "server" // the server or the network; temporary
	faultSetup  fault = "setup"  // tables, login or grants; an operator must act
	faultRows   fault = "rows"   // possibly the rows
)

// hintSetup is the hint of a RetryError for faultSetup.
const hintSetup = "ClickHouse rejects inserts of llmtap: undo the change to the table, the login or the grants; until then rows wait in the stream"

const (
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
)

// loginCodes are the error codes of a rejected login.
var loginCodes = map[int32]bool{
	192: true, // UNKNOWN_USER
	193: true, // WRONG_PASSWORD
	194: true, // REQUIRED_PASSWORD
	516: true, // AUTHENTICATION_FAILED
}

// serverCodes are the error codes that describe the state of the server, not the insert.
var serverCodes = map[int32]bool{
	3:   true, // UNEXPECTED_END_OF_FILE: the request was truncated
	32:  true, // ATTEMPT_TO_READ_AFTER_EOF
	33:  true, // CANNOT_READ_ALL_DATA
	159: true, // TIMEOUT_EXCEEDED
	160: true, // TOO_SLOW
	198: true, // DNS_ERROR
	201: true, // QUOTA_EXCEEDED
	202: true, // TOO_MANY_SIMULTANEOUS_QUERIES
	203: true, // NO_FREE_CONNECTION
	209: true, // SOCKET_TIMEOUT
	210: true, // NETWORK_ERROR
	225: true, // NO_ZOOKEEPER
	236: true, // ABORTED: the server is shutting down
	241: true, // MEMORY_LIMIT_EXCEEDED
	242: true, // TABLE_IS_READ_ONLY: the replica lost its Keeper
	243: true, // NOT_ENOUGH_SPACE
	252: true, // TOO_MANY_PARTS: merges are behind
	279: true, // ALL_CONNECTION_TRIES_FAILED
	285: true, // TOO_FEW_LIVE_REPLICAS
	286: true, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
	319: true, // UNKNOWN_STATUS_OF_INSERT
	364: true, // NOT_INITIALIZED
	394: true, // QUERY_WAS_CANCELLED
	415: true, // ALL_REPLICAS_LOST
	425: true, // SYSTEM_ERROR
	439: true, // CANNOT_SCHEDULE_TASK
	473: true, // DEADLOCK_AVOIDED
	499: true, // S3_ERROR
	574: true, // DISTRIBUTED_TOO_MANY_PENDING_BYTES
	613: true, // TABLE_SIZE_EXCEEDED
	735: true, // QUERY_WAS_CANCELLED_BY_CLIENT
	745: true, // SERVER_OVERLOADED
	999: true, // KEEPER_EXCEPTION
}

// setupCodes are the error codes that are independent of the rows, besides loginCodes.
var setupCodes = map[int32]bool{
	16:  true, // NO_SUCH_COLUMN_IN_TABLE
	20:  true, // NUMBER_OF_COLUMNS_DOESNT_MATCH
	44:  true, // ILLEGAL_COLUMN
	47:  true, // UNKNOWN_IDENTIFIER
	48:  true, // NOT_IMPLEMENTED
	60:  true, // UNKNOWN_TABLE
	62:  true, // SYNTAX_ERROR
	81:  true, // UNKNOWN_DATABASE
	115: true, // UNKNOWN_SETTING
	164: true, // READONLY
	195: true, // IP_ADDRESS_NOT_ALLOWED
	218: true, // TABLE_IS_DROPPED
	291: true, // DATABASE_ACCESS_DENIED
	452: true, // SETTING_CONSTRAINT_VIOLATION
	497: true, // ACCESS_DENIED
}

// A prepareError is an error of an insert before rows were added.
type prepareError struct{ err error }

func (e *prepareError) Error() string { return e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }

// faultOf returns the fault class of err. Unknown errors are blamed on the rows, because the caller can verify that by
// inserting other rows.
func faultOf(err error) fault {
	var ne net.Error // includes *url.Error
	var se syscall.Errno
	ex, isException := errors.AsType[*clickhouse.Exception](err)
	he, isHTTP := errors.AsType[*clickhouse.HTTPError](err)
	_, isPrepare := errors.AsType[*prepareError](err)
	switch {
	case isException && serverCodes[ex.Code]:
		return faultServer
	case isException && (setupCodes[ex.Code] || loginCodes[ex.Code]):
		return faultSetup
	case isException:
	case isHTTP: // from a load balancer
		switch he.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return faultServer
		case http.StatusRequestEntityTooLarge: // fewer rows may be accepted
		default:
			return faultSetup
		}
	case errors.As(err, &ne), errors.As(err, &se),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, clickhouse.ErrAcquireConnTimeout):
		return faultServer
	}
	if isPrepare {
		return faultSetup
	}
	return faultRows
}

// code returns the error code of the server in err, or 0.
func code(err error) int32 {
	if ex, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return ex.Code
	}
	return 0
}

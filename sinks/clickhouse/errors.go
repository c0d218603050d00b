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

// Values of the reason label of metrics.errors.
const (
	reasonRetry = "retry"
	reasonFinal = "final"
)

const codeUnknownDatabase = 81

// retryCodes are the server's error codes that say something of its state and nothing of the insert.
var retryCodes = map[int32]bool{
	3:   true, // UNEXPECTED_END_OF_FILE: the request was cut
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
	242: true, // TABLE_IS_READ_ONLY: the replica lost its keeper
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

// retryable reports whether the same insert may pass later. Unknown errors do not: repeating what cannot pass would hold
// up everything behind it in silence.
func retryable(err error) bool {
	if ex, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return retryCodes[ex.Code]
	}
	if he, ok := errors.AsType[*clickhouse.HTTPError](err); ok {
		switch he.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var ne net.Error // of the network, *url.Error included
	var se syscall.Errno
	return errors.As(err, &ne) || errors.As(err, &se) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, clickhouse.ErrAcquireConnTimeout)
}

// code returns the server's error code in err, 0 when there is none.
func code(err error) int32 {
	if ex, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return ex.Code
	}
	return 0
}

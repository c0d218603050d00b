package clickhouse

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"syscall"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
)

// A fault is the class of an insert error. metrics.errors has it as the label reason.
type fault string

const (
	faultServer fault = "server" // caused by the server or the network; temporary
	faultSetup  fault = "setup"  // caused by tables, login or grants; an operator must act
	faultRows   fault = "rows"   // possibly caused by the rows
)

// hintSetup is the hint of a RetryError for faultSetup.
const hintSetup = "ClickHouse rejects inserts of llmtap: undo the change to the table, the login or the grants"

// hintLogin is the hint of a RetryError for a rejected login.
const hintLogin = "ClickHouse rejects the login: correct the user and password in clickhouse.dsn, or clickhouse.password_file"

// loginCodes lists the error codes of a rejected login.
var loginCodes = []proto.Error{proto.ErrUnknownUser, proto.ErrWrongPassword, proto.ErrRequiredPassword, proto.ErrAuthenticationFailed}

// serverCodes lists the error codes about the state of the server, not about the insert.
var serverCodes = []proto.Error{
	proto.ErrUnexpectedEndOfFile, proto.ErrAttemptToReadAfterEOF, proto.ErrCannotReadAllData, // the request was truncated
	proto.ErrTimeoutExceeded, proto.ErrTooSlow, proto.ErrDNSError, proto.ErrQuotaExpired, proto.ErrTooManySimultaneousQueries,
	proto.ErrNoFreeConnection, proto.ErrSocketTimeout, proto.ErrNetworkError, proto.ErrNoZookeeper,
	proto.ErrAborted, // the server is shutting down
	proto.ErrMemoryLimitExceeded,
	proto.ErrTableIsReadOnly, // the replica has lost its connection to Keeper
	proto.ErrNotEnoughSpace,
	proto.ErrTooManyParts, // merges have fallen behind
	proto.ErrAllConnectionTriesFailed, proto.ErrTooFewLiveReplicas, proto.ErrUnsatisfiedQuorumForPreviousWrite,
	proto.ErrUnknownStatusOfInsert, proto.ErrReceivedErrorTooManyRequests, proto.ErrQueryWasCancelled, proto.ErrAllReplicasLost,
	proto.ErrSystemError, proto.ErrCannotScheduleTask, proto.ErrDeadlockAvoided, proto.ErrS3Error,
	proto.ErrDistributedTooManyPendingBytes, 613 /* TABLE_SIZE_EXCEEDED */, proto.ErrQueryWasCancelledByClient,
	proto.ErrServerOverloaded, proto.ErrKeeperException,
}

// setupCodes lists the error codes that do not depend on the rows, in addition to loginCodes.
var setupCodes = []proto.Error{
	proto.ErrNoSuchColumnInTable, proto.ErrNumberOfColumnsDoesntMatch, proto.ErrIllegalColumn, proto.ErrUnknownIdentifier,
	proto.ErrNotImplemented, proto.ErrUnknownTable, proto.ErrSyntaxError, proto.ErrUnknownDatabase, proto.ErrUnknownSetting,
	proto.ErrReadonly, proto.ErrIPAddressNotAllowed, proto.ErrTableIsDropped, proto.ErrDatabaseAccessDenied,
	proto.ErrSettingConstraintViolation, proto.ErrAccessDenied,
}

// A prepareError is an error of an insert that occurred before rows were added.
type prepareError struct{ err error }

func (e *prepareError) Error() string { return e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }

// faultOf returns the fault class of err. Unknown errors are attributed to the rows, which the caller then verifies.
func faultOf(err error) fault {
	var ne net.Error // includes *url.Error
	var se syscall.Errno
	_, isException := errors.AsType[*clickhouse.Exception](err)
	he, isHTTP := errors.AsType[*clickhouse.HTTPError](err)
	_, isPrepare := errors.AsType[*prepareError](err)
	switch {
	case isException && slices.Contains(serverCodes, code(err)):
		return faultServer
	case isException && (slices.Contains(setupCodes, code(err)) || slices.Contains(loginCodes, code(err))):
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

// Unreachable reports whether err was caused by the server or the network, not by the statement or the rows.
func Unreachable(err error) bool { return faultOf(err) == faultServer }

// OutOfMemory reports whether err means that a statement needs more memory than it may have, or than there is.
func OutOfMemory(err error) bool { return code(err) == proto.ErrMemoryLimitExceeded }

// code returns the error code of the server in err, or 0.
func code(err error) proto.Error {
	if ex, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return proto.Error(ex.Code)
	}
	return 0
}

// withoutRequest returns the reason of a failed HTTP request, without its URL and the steps of the client.
func withoutRequest(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

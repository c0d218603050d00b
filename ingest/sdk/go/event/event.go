package event

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a message.
type Kind uint8

// Kinds of messages. KindUnknown is invalid.
const (
	KindUnknown Kind = iota
	Request
	Response
	Run
	Tool
	Hook // a report of a hook about itself
)

var kindNames = [...]string{Request: "request", Response: "response", Run: "run", Tool: "tool", Hook: "hook"}

// String returns the subject token of the kind: "request", "response", "run", "tool" or "hook".
func (k Kind) String() string {
	if k == KindUnknown || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// ParseKind is the inverse of Kind.String. It returns KindUnknown for other strings.
func ParseKind(s string) Kind {
	return Kind(max(slices.Index(kindNames[:], s), 0))
}

// Values of Event.Capture.
const (
	CaptureFull  = "full"  // unchanged body
	CaptureShape = "shape" // body with the values of protocol members only
	CaptureNone  = "none"  // without the body
	CaptureCut   = "cut"   // first and last 256 KiB of a body over 16 MiB
)

// Values of Event.Origin, the source of an event.
const (
	OriginHook   = "hook"
	OriginProxy  = "proxy"
	OriginHTTP   = "http"
	OriginOTLP   = "otlp"
	OriginImport = "import"
)

// Values of Event.RunStatus and Event.ToolStatus.
const (
	StatusStarted   = "started"
	StatusOK        = "ok"
	StatusError     = "error"
	StatusCancelled = "cancelled" // neither failed nor completed
)

// Values of Event.HookStatus.
const (
	HookAlive = "alive" // every minute, with or without calls, of a process that has sent other events
	HookEnded = "ended" // the process ends, or its hook does; only after HookAlive
)

// Transports of calls that hooks do not capture.
const (
	TransportGRPC      = "grpc"
	TransportWebSocket = "websocket" // a call is a connection
	TransportHTTP3     = "http3"
)

// Labels identify the caller. All are optional; Decode sets a missing service to UnknownService.
type Labels struct {
	Service        string // service.name
	ServiceVersion string // service.version
	Environment    string // deployment.environment.name
	Agent          string // gen_ai.agent.name
	Stage          string // llmtap.stage; defaults to Agent
	Conversation   string // gen_ai.conversation.id
	Run            string // id of an agent run
	User           string // hashed unless configured otherwise
}

// An Event is a message of a hook about the request or response of an exchange, the start or end of a run or tool, or the
// hook itself.
type Event struct {
	Kind     Kind
	Exchange string    // UUIDv7, shared by request and response
	Time     time.Time // time of the request, or of the end of the response, by the hook's clock
	Labels   Labels

	URL        string // request: scheme, host and path, without the query
	Method     string // request
	APIVersion string // request: values of the API version headers
	Account    string // request: hash of the API key, see HashAccount; "" if there is none or it expires

	Status            int           // response: HTTP status; 0 if there was no response
	Error             string        // response: why it is missing or, if Status is set, was not read completely
	Duration          time.Duration // response
	FirstByte         time.Duration // response
	ProviderRequestID string        // response

	// RateLimits is what the response says of rate limits, as described in the documentation of the package; "" if nothing.
	RateLimits string // response

	Retry int // request: retries by the SDK before this attempt

	// Code is where in the agent's own code the call was made, in the format of Code.String; "" if unknown. Request only.
	Code string

	RunStatus  string // run: started, ok, error, cancelled
	ToolCallID string // tool
	ToolStatus string // tool: started, ok, error, cancelled
	HookStatus string // hook: alive, ended; empty in a report of Uncaptured

	Instance string // random id of the process
	Seq      uint64 // number of the event in its instance, from 1; a gap means lost events
	Dropped  uint64 // exchanges that this instance has dropped so far

	// Uncaptured is the number of calls to providers that this instance has made so far with a client that its hook does not
	// capture. Hooks send events of kind Hook for it, because a process may make no other calls.
	Uncaptured uint64
	// UncapturedBy is the number of these calls by transport, such as "grpc=9 websocket=3". Others have an unknown one.
	UncapturedBy string

	Client string // address of a proxy's client; part of the shard key, never published

	Attrs map[string]string // at most MaxAttrs

	Capture         string
	Origin          string
	Degraded        bool // events or parts may be missing, so their absence proves nothing
	ContentType     string
	ContentEncoding string // identity (""), gzip, zstd

	Part, Parts int // the body is part number Part of Parts, from 1; both are 1 for an unsplit body
	BodyBytes   int // length of the whole body before splitting, truncation or omission

	SDK         string // such as python/0.1.0
	Traceparent string // request: W3C trace context

	// Body is the body as sent or received by the agent, unless Capture states otherwise.
	Body []byte
}

// MessageID returns the id by which JetStream drops duplicates: <exchange>.<q or s>.<part>, <run>.<status>, <call
// id>.<exchange>.<status>, <instance>.hook.<uncaptured> or <instance>.<status>.<seq>. The message ids of imports end with the instance, because a
// repeated import has the same exchange ids: JetStream would drop the messages that it remembers, and the others would be
// checked without their context. Encode replaces an id longer than MaxHeaderValue by a hash.
func (e *Event) MessageID() string {
	half := ".q."
	switch e.Kind {
	case Run:
		return e.Labels.Run + "." + e.RunStatus
	case Tool:
		return e.ToolCallID + "." + e.Exchange + "." + e.ToolStatus
	case Hook:
		if e.HookStatus != "" {
			return e.Instance + "." + e.HookStatus + "." + strconv.FormatUint(e.Seq, 10)
		}
		return e.Instance + ".hook." + strconv.FormatUint(e.Uncaptured, 10)
	case Response:
		half = ".s."
	default:
	}
	id := e.Exchange + half + itoa(max(e.Part, 1))
	if e.Origin == OriginImport {
		id += "." + e.Instance
	}
	return id
}

// StageOrAgent returns the stage, or the agent if the stage is empty.
func (l *Labels) StageOrAgent() string {
	return cmp.Or(l.Stage, l.Agent)
}

// ErrorCancelled is the Error of a call cancelled by the agent.
const ErrorCancelled = "cancelled by the agent"

// cancellations are the lower-case cancellation errors of Go (context, net, net/http), Python (asyncio, anyio) and JavaScript.
var cancellations = [...]string{
	"cancelled", "context canceled", "operation was canceled", "request canceled", "aborterror", "operation was aborted",
}

// Cancelled reports whether the agent cancelled the call before its response was complete. An expired deadline is not
// a cancellation, because the provider was too slow.
func (e *Event) Cancelled() bool {
	if e.Kind != Response || e.Error == "" {
		return false
	}
	why := strings.ToLower(e.Error)
	if strings.Contains(why, "deadline") || strings.Contains(why, "timeout") || strings.Contains(why, "timed out") {
		return false
	}
	return slices.ContainsFunc(cancellations[:], func(c string) bool { return strings.Contains(why, c) })
}

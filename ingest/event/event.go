package event

import (
	"slices"
	"strings"
	"time"
)

// Kind says which step of an agent's work a message records.
type Kind uint8

// The kinds of the contract; KindUnknown is none of them.
const (
	KindUnknown Kind = iota
	Request
	Response
	Run
	Tool
)

var kindNames = [...]string{Request: "request", Response: "response", Run: "run", Tool: "tool"}

// String returns the kind's token in a subject: "request", "response", "run" or "tool".
func (k Kind) String() string {
	if k == KindUnknown || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// ParseKind is the inverse of Kind.String; anything else is KindUnknown.
func ParseKind(s string) Kind {
	for k := Request; k <= Tool; k++ {
		if kindNames[k] == s {
			return k
		}
	}
	return KindUnknown
}

// Values of Event.Capture.
const (
	CaptureFull  = "full"  // the body byte for byte
	CaptureShape = "shape" // values only at protocol positions
	CaptureNone  = "none"  // no body
	CaptureCut   = "cut"   // a body over 16 MiB, its first and last 256 KiB
)

// Values of Event.Origin: which way in an event took.
const (
	OriginHook   = "hook"
	OriginProxy  = "proxy"
	OriginHTTP   = "http"
	OriginOTLP   = "otlp"
	OriginImport = "import"
)

// Values of Event.RunStatus and Event.ToolStatus.
const (
	StatusStarted = "started"
	StatusOK      = "ok"
	StatusError   = "error"
	// StatusCancelled is of a run or tool that somebody called off: it neither failed nor finished.
	StatusCancelled = "cancelled"
)

// Labels say whose call it is. All are optional; Decode gives an event without a service the service UnknownService.
type Labels struct {
	Service        string // service.name
	ServiceVersion string // service.version
	Environment    string // deployment.environment.name
	Agent          string // gen_ai.agent.name
	Stage          string // llmtap.stage; defaults to Agent
	Conversation   string // gen_ai.conversation.id
	Run            string // id of one agent run
	User           string // hashed unless configured otherwise
}

// An Event is one NATS message: one half of an exchange, or a step of a run or tool, as a hook published it.
type Event struct {
	Kind     Kind
	Exchange string    // UUIDv7, the same on both halves
	Time     time.Time // when it was sent or ended, by the hook's clock
	Labels   Labels

	URL        string // request: scheme, host and path; no query
	Method     string // request
	APIVersion string // request: value of an allow-listed version header

	Status            int           // response: HTTP status; 0 if no answer came
	Error             string        // response: why no answer came; with a Status above 0, why it was not read whole
	Duration          time.Duration // response
	FirstByte         time.Duration // response
	ProviderRequestID string        // response

	Retry int // request: attempt number of the SDK, 0 first

	RunStatus  string // run: started, ok, error, cancelled
	ToolCallID string // tool
	ToolStatus string // tool: started, ok, error, cancelled

	Instance string // random id per process start
	Seq      uint64 // 1, 2, 3 … per instance; a gap is a loss
	Dropped  uint64 // exchanges this instance dropped so far

	Client string // address of a proxy's client: part of the shard key, never published

	Attrs map[string]string // at most MaxAttrs

	Capture         string
	Origin          string
	Degraded        bool // what is absent is no evidence
	ContentType     string
	ContentEncoding string // identity (""), gzip, zstd

	Part, Parts int // 1-based i/n; 1/1 for an uncut body
	BodyBytes   int // length of the whole body: of all parts; of a body that Capture left out or stubbed, before that

	SDK         string // python/0.1.0
	Traceparent string // request: W3C

	// Body is the provider's bytes, untouched.
	Body []byte
}

// MessageID returns the id that makes publishing twice store once: <exchange>.<q or s>.<part>, <run>.<status> or
// <call id>.<exchange>.<status>. An import repeated has the same exchange ids again, so its message ids end in the
// instance: else JetStream would drop those it still remembers, and the rest would be judged without their context.
// Encode puts the id's hash into Nats-Msg-Id where it is longer than MaxHeaderValue.
func (e *Event) MessageID() string {
	half := ".q."
	switch e.Kind {
	case Run:
		return e.Labels.Run + "." + e.RunStatus
	case Tool:
		return e.ToolCallID + "." + e.Exchange + "." + e.ToolStatus
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

// StageOrAgent returns the stage label, or the agent when no stage was set.
func (l *Labels) StageOrAgent() string {
	if l.Stage != "" {
		return l.Stage
	}
	return l.Agent
}

// ErrorCancelled is what a hook writes into Error when the agent itself gave the call up.
const ErrorCancelled = "cancelled by the agent"

// cancellations are how runtimes say so, in lower case: Go (context, net, net/http), Python (asyncio, anyio), JavaScript.
var cancellations = [...]string{
	"cancelled", "context canceled", "operation was canceled", "request canceled", "aborterror", "operation was aborted",
}

// Cancelled reports whether the agent gave the call up before its answer was whole. A deadline that passed is no
// cancellation: the provider was too slow for it.
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

// StreamingResponse reports whether the payload is a server-sent event stream.
func (e *Event) StreamingResponse() bool {
	return e.Kind == Response && strings.HasPrefix(e.ContentType, "text/event-stream")
}

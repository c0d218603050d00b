package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Header names. NATS headers are case-sensitive.
const (
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderExchange    = "Llmtap-Exchange"
	HeaderTime        = "Llmtap-Time"
	HeaderURL         = "Llmtap-Url"
	HeaderMethod      = "Llmtap-Method"
	HeaderAPIVersion  = "Llmtap-Api-Version"
	HeaderAccount     = "Llmtap-Account"
	HeaderStatus      = "Llmtap-Status"
	HeaderError       = "Llmtap-Error"
	HeaderDuration    = "Llmtap-Duration-Ms"
	HeaderFirstByte   = "Llmtap-First-Byte-Ms"
	HeaderProviderReq = "Llmtap-Provider-Request-Id"
	HeaderRateLimits  = "Llmtap-Rate-Limits"
	HeaderRetry       = "Llmtap-Retry"
	HeaderCode        = "Llmtap-Code"

	HeaderService        = "Llmtap-Service"
	HeaderServiceVersion = "Llmtap-Service-Version"
	HeaderEnvironment    = "Llmtap-Environment"
	HeaderAgent          = "Llmtap-Agent"
	HeaderStage          = "Llmtap-Stage"
	HeaderConversation   = "Llmtap-Conversation"
	HeaderRun            = "Llmtap-Run"
	HeaderUser           = "Llmtap-User"

	HeaderInstance     = "Llmtap-Instance"
	HeaderSeq          = "Llmtap-Seq"
	HeaderDropped      = "Llmtap-Dropped"
	HeaderUncaptured   = "Llmtap-Uncaptured"
	HeaderUncapturedBy = "Llmtap-Uncaptured-By"
	HeaderAttrPrefix   = "Llmtap-Attr-"
	HeaderCapture      = "Llmtap-Capture"
	HeaderOrigin       = "Llmtap-Origin"
	HeaderDegraded     = "Llmtap-Degraded"
	HeaderPart         = "Llmtap-Part"
	HeaderBodyBytes    = "Llmtap-Body-Bytes"
	HeaderRunStatus    = "Llmtap-Run-Status"
	HeaderToolCallID   = "Llmtap-Tool-Call-Id"
	HeaderToolStatus   = "Llmtap-Tool-Status"
	HeaderHookStatus   = "Llmtap-Hook-Status"
	HeaderSDK          = "Llmtap-Sdk"
	HeaderTraceparent  = "Traceparent"

	HeaderContentType     = "Content-Type"
	HeaderContentEncoding = "Content-Encoding"
)

// Limits. Encode truncates longer values; Decode truncates longer text and rejects larger numbers.
const (
	MaxHeaderValue = 512 // bytes of a value after percent-encoding
	MaxAttrs       = 32  // if there are more, the first ones in key order
	MaxAttrKey     = 64
	MaxParts       = 1024
	MaxDuration    = 1_000_000 * time.Second // 11 days
)

// ErrMalformed means that a message is not a valid event. All errors of Decode wrap it.
var ErrMalformed = errors.New("malformed event")

// Header contains the headers of a NATS message. It has the type of nats.Header.
type Header map[string][]string

func (h Header) get(k string) string {
	if v := h[k]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Encode returns the headers of e. It omits empty fields and fields of other kinds, percent-encodes values and truncates
// them to MaxHeaderValue bytes. It does not read the body.
func (e *Event) Encode() Header {
	w := make(writer, 0, 32)
	w.headers(e)
	h, values := make(Header, 1+len(w)), make([]string, 1+len(w))
	values[0] = headerMessageID(e.MessageID())
	h[HeaderMsgID] = values[:1:1]
	for i, l := range w {
		values[i+1] = l.value
		h[l.name] = values[i+1 : i+2 : i+2]
	}
	return h
}

// headers appends the headers of e other than its message id.
func (w *writer) headers(e *Event) {
	w.text(HeaderExchange, e.Exchange)
	w.token(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	switch e.Kind {
	case Request:
		w.text(HeaderURL, withoutSecrets(e.URL))
		w.text(HeaderMethod, e.Method)
		w.text(HeaderAPIVersion, e.APIVersion)
		w.text(HeaderAccount, e.Account)
		w.uint(HeaderRetry, uint64(max(e.Retry, 0)))
		w.text(HeaderCode, e.Code)
		w.text(HeaderTraceparent, e.Traceparent)
	case Response:
		w.token(HeaderStatus, itoa(e.Status))
		w.text(HeaderError, e.Error)
		w.token(HeaderDuration, millis(e.Duration))
		w.token(HeaderFirstByte, millis(e.FirstByte))
		w.text(HeaderProviderReq, e.ProviderRequestID)
		w.text(HeaderRateLimits, e.RateLimits)
	case Run:
		w.text(HeaderRunStatus, e.RunStatus)
	case Tool:
		w.text(HeaderToolCallID, e.ToolCallID)
		w.text(HeaderToolStatus, e.ToolStatus)
	case Hook:
		w.text(HeaderHookStatus, e.HookStatus)
	case KindUnknown: // has no headers of its own
	}
	w.text(HeaderService, e.Labels.Service)
	w.text(HeaderServiceVersion, e.Labels.ServiceVersion)
	w.text(HeaderEnvironment, e.Labels.Environment)
	w.text(HeaderAgent, e.Labels.Agent)
	w.text(HeaderStage, e.Labels.Stage)
	w.text(HeaderConversation, e.Labels.Conversation)
	w.text(HeaderRun, e.Labels.Run)
	w.text(HeaderUser, e.Labels.User)
	w.text(HeaderInstance, e.Instance)
	w.uint(HeaderSeq, e.Seq)
	w.uint(HeaderDropped, e.Dropped)
	w.uint(HeaderUncaptured, e.Uncaptured)
	w.text(HeaderUncapturedBy, e.UncapturedBy)
	w.attrs(e.Attrs)
	w.text(HeaderCapture, e.Capture)
	w.text(HeaderOrigin, e.Origin)
	if e.Degraded {
		w.token(HeaderDegraded, "1")
	}
	w.text(HeaderContentType, e.ContentType)
	w.text(HeaderContentEncoding, e.ContentEncoding)
	if e.Parts > 1 {
		w.token(HeaderPart, itoa(e.Part)+"/"+itoa(e.Parts))
	}
	if e.Parts > 1 || e.stubbed() && e.BodyBytes > len(e.Body) {
		w.token(HeaderBodyBytes, itoa(max(e.BodyBytes, 0)))
	}
	w.text(HeaderSDK, e.SDK)
}

// stubbed reports whether the hook omitted the body or a part of it.
func (e *Event) stubbed() bool { return e.Capture == CaptureCut || e.Capture == CaptureNone }

// withoutSecrets removes the query string and the user, which may contain a key.
func withoutSecrets(url string) string {
	if n := strings.IndexAny(url, "?#"); n >= 0 {
		url = url[:n]
	}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	host, _, _ := strings.Cut(rest, "/")
	if n := strings.LastIndexByte(host, '@'); n >= 0 {
		return scheme + "://" + rest[n+1:]
	}
	return url
}

// headerMessageID returns id as a header value. It hashes an id that is too long instead of truncating it, because
// only the end of an id distinguishes a start from an end, and NATS drops the second of two messages with the same
// id.
func headerMessageID(id string) string {
	if v := escape(id); unescape(v) == id {
		return v
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A line is a header with one value.
type line struct{ name, value string }

// writer collects headers.
type writer []line

// token adds a value that needs no escaping.
func (w *writer) token(k, v string) { *w = append(*w, line{k, v}) }

func (w *writer) text(k, v string) {
	if v != "" {
		w.token(k, escape(v))
	}
}

func (w *writer) uint(k string, n uint64) {
	if n != 0 {
		w.token(k, strconv.FormatUint(n, 10))
	}
}

func (w *writer) attrs(attrs map[string]string) {
	if len(attrs) <= MaxAttrs {
		for k, v := range attrs {
			if ValidAttrKey(k) {
				w.text(HeaderAttrPrefix+k, v)
			}
		}
		return
	}
	n := 0
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		if n < MaxAttrs && ValidAttrKey(k) && attrs[k] != "" {
			w.text(HeaderAttrPrefix+k, attrs[k])
			n++
		}
	}
}

// ValidAttrKey reports whether k matches [a-z0-9._-]{1,64}.
func ValidAttrKey(k string) bool {
	return k != "" && len(k) <= MaxAttrKey && !strings.ContainsFunc(k, func(c rune) bool {
		return c != '.' && c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// millis formats d in milliseconds with nanosecond precision. Negative durations become 0.
func millis(d time.Duration) string {
	d = min(max(d, 0), MaxDuration)
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

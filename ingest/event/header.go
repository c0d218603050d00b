package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Header names of the contract (DESIGN.md section 2). They are case-sensitive, as NATS headers are.
const (
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderExchange    = "Llmtap-Exchange"
	HeaderTime        = "Llmtap-Time"
	HeaderURL         = "Llmtap-Url"
	HeaderMethod      = "Llmtap-Method"
	HeaderAPIVersion  = "Llmtap-Api-Version"
	HeaderStatus      = "Llmtap-Status"
	HeaderError       = "Llmtap-Error"
	HeaderDuration    = "Llmtap-Duration-Ms"
	HeaderFirstByte   = "Llmtap-First-Byte-Ms"
	HeaderProviderReq = "Llmtap-Provider-Request-Id"
	HeaderRetry       = "Llmtap-Retry"

	HeaderService        = "Llmtap-Service"
	HeaderServiceVersion = "Llmtap-Service-Version"
	HeaderEnvironment    = "Llmtap-Environment"
	HeaderAgent          = "Llmtap-Agent"
	HeaderStage          = "Llmtap-Stage"
	HeaderConversation   = "Llmtap-Conversation"
	HeaderRun            = "Llmtap-Run"
	HeaderUser           = "Llmtap-User"

	HeaderInstance    = "Llmtap-Instance"
	HeaderSeq         = "Llmtap-Seq"
	HeaderDropped     = "Llmtap-Dropped"
	HeaderAttrPrefix  = "Llmtap-Attr-"
	HeaderCapture     = "Llmtap-Capture"
	HeaderOrigin      = "Llmtap-Origin"
	HeaderDegraded    = "Llmtap-Degraded"
	HeaderPart        = "Llmtap-Part"
	HeaderBodyBytes   = "Llmtap-Body-Bytes"
	HeaderRunStatus   = "Llmtap-Run-Status"
	HeaderToolCallID  = "Llmtap-Tool-Call-Id"
	HeaderToolStatus  = "Llmtap-Tool-Status"
	HeaderSDK         = "Llmtap-Sdk"
	HeaderTraceparent = "Traceparent"

	HeaderContentType     = "Content-Type"
	HeaderContentEncoding = "Content-Encoding"
)

// Bounds of the contract.
const (
	MaxHeaderValue = 512 // bytes of one value, after percent-encoding
	MaxAttrs       = 32
	MaxAttrKey     = 64
)

// ErrMalformed is wrapped by every error of Decode: the message becomes a dead letter.
var ErrMalformed = errors.New("malformed event")

// Header is a NATS message's header; nats.Header converts to it.
type Header map[string][]string

func (h Header) get(k string) string {
	if v := h[k]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Encode returns the headers of e. Empty fields have no header; values are cut to MaxHeaderValue bytes and
// percent-encoded where they are not printable ASCII.
func (e *Event) Encode() Header {
	h := make(Header, 28)
	set := func(k, v string) {
		if v != "" {
			h[k] = []string{escape(v)}
		}
	}
	set(HeaderMsgID, e.MessageID())
	set(HeaderExchange, e.Exchange)
	set(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	set(HeaderURL, e.URL)
	set(HeaderMethod, e.Method)
	set(HeaderAPIVersion, e.APIVersion)
	if e.Kind == Response {
		set(HeaderStatus, strconv.Itoa(e.Status))
		set(HeaderError, e.Error)
		set(HeaderDuration, millis(e.Duration))
		set(HeaderFirstByte, millis(e.FirstByte))
		set(HeaderProviderReq, e.ProviderRequestID)
	}
	if e.Kind == Request {
		set(HeaderRetry, strconv.Itoa(e.Retry))
		set(HeaderTraceparent, e.Traceparent)
	}
	set(HeaderService, e.Labels.Service)
	set(HeaderServiceVersion, e.Labels.ServiceVersion)
	set(HeaderEnvironment, e.Labels.Environment)
	set(HeaderAgent, e.Labels.Agent)
	set(HeaderStage, e.Labels.Stage)
	set(HeaderConversation, e.Labels.Conversation)
	set(HeaderRun, e.Labels.Run)
	set(HeaderUser, e.Labels.User)
	set(HeaderInstance, e.Instance)
	set(HeaderSeq, uitoa(e.Seq))
	set(HeaderDropped, uitoa(e.Dropped))
	n := 0
	for k, v := range e.Attrs {
		if n == MaxAttrs || !ValidAttrKey(k) || v == "" {
			continue
		}
		n++
		set(HeaderAttrPrefix+k, v)
	}
	set(HeaderCapture, e.Capture)
	set(HeaderOrigin, e.Origin)
	if e.Degraded {
		set(HeaderDegraded, "1")
	}
	set(HeaderContentType, e.ContentType)
	set(HeaderContentEncoding, e.ContentEncoding)
	if e.Parts > 1 {
		set(HeaderPart, itoa(e.Part)+"/"+itoa(e.Parts))
		set(HeaderBodyBytes, itoa(e.BodyBytes))
	}
	set(HeaderRunStatus, e.RunStatus)
	set(HeaderToolCallID, e.ToolCallID)
	set(HeaderToolStatus, e.ToolStatus)
	set(HeaderSDK, e.SDK)
	return h
}

// Decode reads the message subject, h, body. Unknown headers are ignored. What the contract requires and is
// missing or unreadable is an error that wraps ErrMalformed; the body is never looked at and is not copied.
func Decode(subject string, h Header, body []byte) (*Event, error) {
	kind, _, _, err := ParseSubject(subject)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := decoder{h: h}
	e := &Event{
		Kind: kind, Body: body,
		Exchange:   d.text(HeaderExchange),
		URL:        d.text(HeaderURL),
		Method:     d.text(HeaderMethod),
		APIVersion: d.text(HeaderAPIVersion),
		Labels: Labels{
			Service: d.text(HeaderService), ServiceVersion: d.text(HeaderServiceVersion), Environment: d.text(HeaderEnvironment),
			Agent: d.text(HeaderAgent), Stage: d.text(HeaderStage), Conversation: d.text(HeaderConversation),
			Run: d.text(HeaderRun), User: d.text(HeaderUser),
		},
		Time: d.time(HeaderTime), Instance: d.text(HeaderInstance),
		Seq: d.uint(HeaderSeq), Dropped: d.uint(HeaderDropped),
		Capture: d.text(HeaderCapture), Origin: d.text(HeaderOrigin), Degraded: d.text(HeaderDegraded) == "1",
		ContentType: d.text(HeaderContentType), ContentEncoding: d.text(HeaderContentEncoding),
		RunStatus: d.text(HeaderRunStatus), ToolCallID: d.text(HeaderToolCallID), ToolStatus: d.text(HeaderToolStatus),
		SDK: d.text(HeaderSDK), Traceparent: d.text(HeaderTraceparent),
		Part: 1, Parts: 1, BodyBytes: len(body),
	}
	switch kind {
	case Request:
		e.Retry = int(d.uint(HeaderRetry))
	case Response:
		if d.h.get(HeaderStatus) == "" {
			d.fail(HeaderStatus, "is missing")
		}
		e.Status = int(d.uint(HeaderStatus))
		e.Error = d.text(HeaderError)
		e.Duration, e.FirstByte = d.millis(HeaderDuration), d.millis(HeaderFirstByte)
		e.ProviderRequestID = d.text(HeaderProviderReq)
	}
	if v := d.text(HeaderPart); v != "" {
		i, n, ok := strings.Cut(v, "/")
		e.Part, _ = strconv.Atoi(i)
		e.Parts, _ = strconv.Atoi(n)
		if !ok || e.Part < 1 || e.Parts < e.Part {
			d.fail(HeaderPart, "is not i/n")
		}
		e.BodyBytes = int(d.uint(HeaderBodyBytes))
	}
	for k, v := range h {
		key, ok := strings.CutPrefix(k, HeaderAttrPrefix)
		if !ok || len(v) == 0 || !ValidAttrKey(key) || len(e.Attrs) == MaxAttrs {
			continue
		}
		if e.Attrs == nil {
			e.Attrs = make(map[string]string)
		}
		e.Attrs[key] = unescape(v[0])
	}
	switch {
	case (kind == Request || kind == Response) && e.Exchange == "":
		d.fail(HeaderExchange, "is missing")
	case kind == Run && (e.Labels.Run == "" || e.RunStatus == ""):
		d.fail(HeaderRun, "or "+HeaderRunStatus+" is missing")
	case kind == Tool && (e.ToolCallID == "" || e.ToolStatus == ""):
		d.fail(HeaderToolCallID, "or "+HeaderToolStatus+" is missing")
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, d.err)
	}
	return e, nil
}

// ValidAttrKey reports whether k is [a-z0-9._-]{1,64}.
func ValidAttrKey(k string) bool {
	if k == "" || len(k) > MaxAttrKey {
		return false
	}
	for i := range len(k) {
		c := k[i]
		if c != '.' && c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// decoder reads typed header values and keeps the first error.
type decoder struct {
	h   Header
	err error
}

func (d *decoder) fail(k, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("header %s %s", k, why)
	}
}

func (d *decoder) text(k string) string { return unescape(d.h.get(k)) }

func (d *decoder) uint(k string) uint64 {
	v := d.h.get(k)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		d.fail(k, "is not a number")
	}
	return n
}

func (d *decoder) millis(k string) time.Duration {
	v := d.h.get(k)
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f < 1e12) {
		d.fail(k, "is not a duration in milliseconds")
		return 0
	}
	return time.Duration(f * float64(time.Millisecond))
}

func (d *decoder) time(k string) time.Time {
	v := d.h.get(k)
	if v == "" {
		d.fail(k, "is missing")
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		d.fail(k, "is not RFC 3339")
	}
	return t.UTC()
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

func uitoa(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes what is not printable ASCII, and the percent sign, and cuts the result to MaxHeaderValue
// without splitting an escape or a UTF-8 sequence.
func escape(s string) string {
	clean := len(s) <= MaxHeaderValue
	for i := 0; clean && i < len(s); i++ {
		clean = s[i] > ' ' && s[i] < 0x7f && s[i] != '%' || s[i] == ' ' && i > 0 && i < len(s)-1
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		size := 1
		if r >= 0x80 {
			size = len(string(r))
			if r == 0xFFFD && (i+2 >= len(s) || s[i:i+3] != "\uFFFD") {
				size = 1 // an invalid byte, kept as it is
			}
		}
		enc := ""
		for _, c := range []byte(s[i : i+size]) {
			if c > ' ' && c < 0x7f && c != '%' || c == ' ' && i > 0 && i < len(s)-1 {
				enc += string(rune(c))
			} else {
				enc += "%" + string(hexDigits[c>>4]) + string(hexDigits[c&15])
			}
		}
		if b.Len()+len(enc) > MaxHeaderValue {
			break
		}
		b.WriteString(enc)
	}
	return b.String()
}

// unescape is the inverse of escape; a stray percent sign stays as it is.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

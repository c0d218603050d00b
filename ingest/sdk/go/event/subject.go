package event

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Subjects, streams and key-value buckets.
const (
	SubjectPrefix    = "llmtap.v1."
	SubjectAll       = "llmtap.v1.>"
	DeadPrefix       = "llmtap.dead."
	TallyPrefix      = "llmtap.tally."
	SpansPrefix      = "llmtap.spans."
	StreamEvents     = "LLMTAP"
	StreamDead       = "LLMTAP_DEAD"
	StreamTally      = "LLMTAP_TALLY"
	StreamSpans      = "LLMTAP_SPANS"
	BucketCheckpoint = "llmtap_checkpoint"
	BucketLedger     = "llmtap_ledger"
	BucketAlerts     = "llmtap_alerts"
)

// MaxServiceName is the maximum length of the service token of a subject.
const MaxServiceName = 32

// UnknownService is the service of events that do not name a service.
const UnknownService = "unknown"

// Subject returns llmtap.v1.<kind>.<service>.<shard>. Subjects route messages, and
// NATS permits clients to publish on those of their service; the other values are in headers.
func (e *Event) Subject() string { return e.subject(e.Kind.String()) }

// subject returns the subject of e with another kind.
func (e *Event) subject(kind string) string {
	b := make([]byte, 0, len(SubjectPrefix)+len("response")+MaxServiceName+4)
	b = append(b, SubjectPrefix...)
	b = append(b, kind...)
	b = append(b, '.')
	b = append(b, ServiceToken(e.Labels.Service)...)
	shard := e.Shard()
	b = append(b, '.', lowerHex[shard>>4], lowerHex[shard&15])
	return string(b)
}

// Shard returns the low byte of the 32-bit FNV-1a hash of the shard key: the conversation if there is one, otherwise
// (service, agent, instance), or (service, agent, client) for a proxy. All events of a conversation have the same
// shard and thus stay in order.
func (e *Event) Shard() byte {
	if e.Labels.Conversation != "" {
		return ShardOf(e.Labels.Conversation)
	}
	return ShardOf(cmp.Or(e.Labels.Service, UnknownService), e.Labels.Agent, cmp.Or(e.Client, e.Instance))
}

// ShardOf returns the shard of a key whose parts are separated by a zero byte.
func ShardOf(parts ...string) byte {
	h := uint32(fnvOffset)
	for i, p := range parts {
		if i > 0 {
			h *= fnvPrime // the zero byte
		}
		h = fnv1a(h, p)
	}
	return byte(h)
}

// ServiceToken returns name if it matches [A-Za-z0-9_-]{1,32}. In other names it replaces invalid characters and appends
// "-" and 6 hex digits of the name's hash, so that different names have different tokens.
func ServiceToken(name string) string {
	if name == "" {
		return UnknownService
	}
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, name)
	if clean == name && len(name) <= MaxServiceName {
		return name
	}
	return fmt.Sprintf("%s-%06x", clean[:min(len(clean), MaxServiceName-7)], fnv1a(fnvOffset, name)&0xffffff)
}

// ParseSubject parses the subject of an event into kind, service token and shard.
func ParseSubject(s string) (kind Kind, service string, shard byte, err error) {
	name, service, shard, err := parseSubject(s)
	if kind = ParseKind(name); err == nil && kind == KindUnknown {
		return 0, "", 0, fmt.Errorf("subject %q: unknown kind %q", s, name)
	}
	return kind, service, shard, err
}

// parseSubject is ParseSubject for any kind.
func parseSubject(s string) (kind, service string, shard byte, err error) {
	rest, prefixed := strings.CutPrefix(s, SubjectPrefix)
	kind, rest, ok1 := strings.Cut(rest, ".")
	service, hex, ok2 := strings.Cut(rest, ".")
	if !prefixed || !ok1 || !ok2 || service == "" || strings.IndexByte(hex, '.') >= 0 {
		return "", "", 0, fmt.Errorf("subject %q is not %s<kind>.<service>.<shard>", s, SubjectPrefix)
	}
	n, err := strconv.ParseUint(hex, 16, 8)
	if err != nil || len(hex) != 2 {
		return "", "", 0, fmt.Errorf("subject %q: shard %q is not two hex digits", s, hex)
	}
	return kind, service, byte(n), nil
}

// The 32-bit FNV-1a hash, inlined because hash/fnv allocates.
const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
)

func fnv1a(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime
	}
	return h
}

const lowerHex = "0123456789abcdef"

func itoa(n int) string { return strconv.Itoa(n) }

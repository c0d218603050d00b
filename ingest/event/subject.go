package event

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Streams, key-value buckets and subjects of the contract.
const (
	SubjectPrefix  = "llmtap.v1."
	SubjectAll     = "llmtap.v1.>"
	DeadPrefix     = "llmtap.dead."
	TallyPrefix    = "llmtap.tally."
	StreamEvents   = "LLMTAP"
	StreamDead     = "LLMTAP_DEAD"
	StreamTally    = "LLMTAP_TALLY"
	BucketProgress = "llmtap_checkpoint"
	BucketLedger   = "llmtap_ledger"
	BucketAlerts   = "llmtap_alerts"
)

// MaxServiceName is the longest service token of a subject, in bytes.
const MaxServiceName = 32

// Subject returns llmtap.v1.<kind>.<service>.<shard>. Subjects only route; the headers are the truth.
func (e *Event) Subject() string {
	return SubjectPrefix + e.Kind.String() + "." + ServiceToken(e.Labels.Service) + "." + fmt.Sprintf("%02x", e.Shard())
}

// Shard is the low byte of the 32-bit FNV-1a hash of the shard key: the conversation, else (service, agent,
// instance). All of a conversation shares a shard and so keeps its order.
func (e *Event) Shard() byte {
	if e.Labels.Conversation != "" {
		return ShardOf(e.Labels.Conversation)
	}
	return ShardOf(e.Labels.Service, e.Labels.Agent, e.Instance)
}

// ShardOf hashes a shard key, its parts separated by a zero byte.
func ShardOf(parts ...string) byte {
	h := fnv.New32a()
	for i, p := range parts {
		if i > 0 {
			h.Write([]byte{0})
		}
		h.Write([]byte(p))
	}
	return byte(h.Sum32())
}

// ServiceToken returns name if it fits a subject, [A-Za-z0-9_-]{1,32}; any other name is cleaned and gets "-" and
// 6 hex digits of its hash, so that two names never share a token by cleaning alone.
func ServiceToken(name string) string {
	if name == "" {
		return "unknown"
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
	if len(clean) > MaxServiceName-7 {
		clean = clean[:MaxServiceName-7]
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("%s-%06x", clean, h.Sum32()&0xffffff)
}

// ParseSubject splits a subject of the contract into kind, service token and shard.
func ParseSubject(s string) (kind Kind, service string, shard byte, err error) {
	rest, ok := strings.CutPrefix(s, SubjectPrefix)
	f := strings.Split(rest, ".")
	if !ok || len(f) != 3 {
		return 0, "", 0, fmt.Errorf("subject %q is not %s<kind>.<service>.<shard>", s, SubjectPrefix)
	}
	if kind = ParseKind(f[0]); kind == KindUnknown {
		return 0, "", 0, fmt.Errorf("subject %q: unknown kind %q", s, f[0])
	}
	n, err := strconv.ParseUint(f[2], 16, 8)
	if err != nil || len(f[2]) != 2 {
		return 0, "", 0, fmt.Errorf("subject %q: shard %q is not two hex digits", s, f[2])
	}
	return kind, f[1], byte(n), nil
}

func itoa(n int) string { return strconv.Itoa(n) }

package promptcache

import (
	"bytes"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// A Prompt is what is remembered of a request whose answer said what was read from the cache, so that a later request can be
// compared with it. Every live conversation has one, of 64 bytes.
type Prompt struct {
	// Of the newest request, even if it has no answer.
	Tools      *ToolSet // nil if it declared none
	System     uint64   // hash of the system prompt and the leading system messages, without marks
	Parameters uint64   // see Policy.Digest
	Target     uint16   // hash of the host and the model
	Account    uint16   // hash of event.Event.Account; 0 if unknown
	SystemSize uint32   // of the text of System

	// Of the newest request with an answer.
	Sent     uint32 // Unix time in seconds
	Took     uint16 // seconds until the answer ended
	Marks    uint16 // blocks up to the last mark
	Messages uint16 // messages after the leading system messages
	Shared   uint16 // of these, those at the start that all requests since have
	Flags    Flags
	Version  uint16 // hash of the version of the service; of the newest request, even if it has no answer
	Told     uint32 // reasons of which the history has a finding, see Tell
	Input    uint32 // tokens; 0 if nothing is remembered
	Held     uint32 // of these, read from the cache or written to it, as far as the answer says
	Bytes    uint32 // size of the prompt
}

// PromptBytes is the size of a Prompt.
const PromptBytes = 64

// Flags of a Prompt.
type Flags uint16

// The flags.
const (
	Marked      Flags = 1 << iota // something is marked
	MarkedSetup                   // the tools or the system prompt are
	Longer                        // the request asks for the longer time to live
	Keyed                         // it has a prompt_cache_key
	Shaped                        // it is a shape
	HasImages                     // a message has an image
	Switched                      // requests of the history had different accounts
)

// Begin records the newest request. If it differs from p before the messages, what is remembered of an answer is of no use.
func (p *Prompt) Begin(now *Prompt, differs bool) {
	if differs {
		*p = Prompt{Told: p.Told}
	}
	p.Tools, p.System, p.SystemSize, p.Parameters, p.Target, p.Version = now.Tools, now.System, now.SystemSize, now.Parameters, now.Target, now.Version
	p.Account = now.Account
}

// Answer records the answer to the newest request, which took a time in seconds.
func (p *Prompt) Answer(x *Expected, input, held int64, took uint16) {
	p.Sent, p.Took, p.Messages, p.Shared, p.Flags, p.Bytes, p.Marks = x.Sent, took, x.Messages, x.Messages, x.Flags, x.Bytes, x.Marks
	p.Input, p.Held = Clip(input), Clip(held)
}

// Account returns the hash of an account; 0 if it is unknown.
func Account(name string) uint16 {
	if name == "" {
		return 0
	}
	return uint16(xxh3.HashString(name)%(1<<16-1) + 1)
}

// Apart reports whether q is known to have another account than p.
func (p *Prompt) Apart(q *Prompt) bool {
	return p.Account != 0 && q.Account != 0 && p.Account != q.Account
}

// Known reports whether p is a prompt.
func (p *Prompt) Known() bool { return p.Input > 0 }

// BodySize returns the size of the messages after the leading system messages.
func (p *Prompt) BodySize() int { return int(p.Bytes) - int(p.SystemSize) - p.Tools.Bytes() }

// Size returns the size that a part of a shape had before its texts were replaced by ~<bytes>:<hash>.
func Size(shape []byte) int {
	n := len(shape)
	for {
		i := bytes.IndexByte(shape, '~')
		if i < 0 {
			return n
		}
		shape = shape[i+1:]
		text, digits := 0, 0
		for digits < len(shape) && digits < 9 && shape[digits] >= '0' && shape[digits] <= '9' {
			text = 10*text + int(shape[digits]-'0')
			digits++
		}
		if end := digits + 1 + textHash; digits > 0 && len(shape) >= end && shape[digits] == ':' {
			n += text - end - 1
			shape = shape[end:]
		}
	}
}

// textHash is the length of the hash of a text in a shape.
const textHash = 16

// Clip returns n as an uint32, or the nearest number that is one.
func Clip[T int | int64](n T) uint32 { return uint32(min(max(int64(n), 0), math.MaxUint32)) }

// Tell reports whether the history of p has no finding about reason yet, and records that it has one.
func (p *Prompt) Tell(reason string) bool {
	bit := uint32(1) << (slices.Index(reasons[:], reason) & 31)
	fresh := p.Told&bit == 0
	p.Told |= bit
	return fresh
}

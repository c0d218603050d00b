package analyzer

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// maxInterned bounds the strings that an interner knows; when there are more it starts anew.
const maxInterned = 8192

// interner makes equal strings share their memory. The strings of an event lie in one block with all its headers, and
// one that is kept keeps the block.
type interner map[string]string

// string returns s in memory of its own, shared with what is equal.
func (in interner) string(s string) string {
	if s == "" {
		return ""
	}
	if same, ok := in[s]; ok {
		return same
	}
	s = strings.Clone(s)
	in.add(s)
	return s
}

// name is string for bytes, made fit for a row.
func (in interner) name(b []byte) string {
	if same, ok := in[string(b)]; ok {
		return same
	}
	s := limit.Name(string(b))
	if s == string(b) {
		in.add(s)
	}
	return s
}

func (in interner) add(s string) {
	if len(s) > limit.NameBytes {
		return
	}
	if len(in) >= maxInterned {
		clear(in)
	}
	in[s] = s
}

// labels are the labels of ev with their defaults, in memory of their own.
func (in interner) labels(ev *event.Event) event.Labels {
	l := ev.Labels
	l.Stage = l.StageOrAgent()
	if l.Service == "" {
		l.Service = event.UnknownService
	}
	for _, s := range [...]*string{&l.Service, &l.ServiceVersion, &l.Environment, &l.Agent, &l.Stage, &l.User} {
		*s = in.string(*s)
	}
	l.Conversation, l.Run = strings.Clone(l.Conversation), in.string(l.Run)
	return l
}

package analyzer

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// maxInterned limits the strings of an interner. A full interner is cleared.
const maxInterned = 8192

// An interner makes equal strings share memory. The strings of an event are in one block with all its headers, so
// retaining one string would retain the whole block.
type interner map[string]string

// string returns a copy of s that equal strings share.
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

// name is like string, but for bytes, which it shortens as limit.Name does.
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

// labels returns a copy of the labels of ev, with defaults for missing labels.
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

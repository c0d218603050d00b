package llmtap

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
)

type scopeKey struct{}

// A scope contains the labels of the calls made under a context. It is immutable.
type scope struct {
	labels event.Labels // Agent, Stage, Conversation, Run and User; after WithCaller, all labels
	attrs  map[string]string

	caller bool   // set by WithCaller
	client string // address of the Caller

	// last is the id of the newest exchange under the nearest WithConversation or WithRun, for tool events.
	last *atomic.Pointer[string]
}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	if s == nil {
		return scope{}
	}
	return *s
}

func with(ctx context.Context, change func(*scope)) context.Context {
	s := scopeOf(ctx)
	change(&s)
	return context.WithValue(ctx, scopeKey{}, &s)
}

// WithConversation labels the calls under ctx with the id of their conversation, a growing message history. The calls
// of a conversation stay in order in the stream.
func WithConversation(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Conversation, s.last = clip(id), new(atomic.Pointer[string]) })
}

// WithRun labels the calls under ctx with one run of the agent, which may have many conversations.
func WithRun(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Run, s.last = clip(id), new(atomic.Pointer[string]) })
}

// A Caller is the agent whose call this process forwards, as a proxy does.
type Caller struct {
	Labels  event.Labels      // User is hashed as in WithUser
	Attrs   map[string]string // as in WithAttr; must not be changed afterwards
	Address string            // address of the client; groups its calls that have no conversation; not published
}

// WithCaller labels the calls under ctx with the labels of c instead of the labels from Config.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return with(ctx, func(s *scope) {
		s.labels, s.attrs, s.client, s.caller = c.Labels, c.Attrs, c.Address, true
	})
}

// WithAgent labels the calls under ctx with the name of the agent instead of Config.Agent.
func WithAgent(ctx context.Context, name string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Agent = clip(name) })
}

// WithStage labels the calls under ctx with the stage of the agent, such as "planner".
func WithStage(ctx context.Context, name string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Stage = clip(name) })
}

// WithUser labels the calls under ctx with the id of the user for whom they are made. The id is published as a hash,
// keyed with LLMTAP_SHAPE_KEY if that is set, unless Config.KeepUser is true.
func WithUser(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.User = id })
}

// WithAttr adds an attribute to the calls under ctx. Keys that do not match [a-z0-9._-]{1,64} are ignored, and so are
// new keys beyond the 32nd.
func WithAttr(ctx context.Context, key, value string) context.Context {
	return with(ctx, func(s *scope) {
		if !event.ValidAttrKey(key) || len(s.attrs) >= event.MaxAttrs && s.attrs[key] == "" {
			return
		}
		attrs := make(map[string]string, len(s.attrs)+1)
		maps.Copy(attrs, s.attrs)
		attrs[key] = clipAttr(value)
		s.attrs = attrs
	})
}

// labels returns the labels of the process, overridden by the labels of the context.
func (h *Hook) labels(s *scope) event.Labels {
	l := s.labels
	if !s.caller {
		l.Service, l.ServiceVersion, l.Environment = h.cfg.Service, h.cfg.ServiceVersion, h.cfg.Environment
		if l.Agent == "" {
			l.Agent = h.cfg.Agent
		}
	}
	if l.User != "" && !h.cfg.KeepUser {
		l.User = event.HashUser(h.cfg.userKey, l.User)
	}
	l.User = clip(l.User)
	return l
}

// maxAttr is the maximum length of the value of an attribute that is masked before it is truncated.
const maxAttr = 4 << 10

// clipAttr truncates the value of an attribute. A long one is masked before, because the rest of a secret may not look like one; others
// are masked in the background.
func clipAttr(s string) string {
	if len(s) <= event.MaxHeaderValue {
		return s
	}
	return clip(string(redact.Append(nil, redact.Truncate([]byte(s), maxAttr))))
}

// clip truncates s to the length of a header value, so that longer values use no memory in the queue.
func clip(s string) string {
	if len(s) <= event.MaxHeaderValue {
		return s
	}
	return strings.Clone(s[:event.MaxHeaderValue])
}

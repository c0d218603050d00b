package llmtap

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/llmtap/llmtap/ingest/event"
)

type scopeKey struct{}

// A scope is what a context says about the calls made under it. It never changes once made.
type scope struct {
	labels event.Labels // Agent, Stage, Conversation, Run and User; the hook knows the others
	attrs  map[string]string

	foreign bool   // labels are a Caller's and whole
	client  string // address of a Caller

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

// WithConversation labels the calls under ctx with the conversation they belong to: one message history that grows. All
// calls of a conversation keep their order.
func WithConversation(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Conversation, s.last = clip(id), new(atomic.Pointer[string]) })
}

// WithRun labels the calls under ctx with one run of the agent, which may hold many conversations.
func WithRun(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Run, s.last = clip(id), new(atomic.Pointer[string]) })
}

// A Caller is who makes a call that this process only passes on, as a proxy does.
type Caller struct {
	Labels  event.Labels      // all of them; User is treated as that of WithUser
	Attrs   map[string]string // as of WithAttr; not to be changed afterwards
	Address string            // of the client; it groups its calls without a conversation, and is not published
}

// WithCaller labels the calls under ctx as c's. Labels of Config are not used for them.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return with(ctx, func(s *scope) {
		s.labels, s.attrs, s.client, s.foreign = c.Labels, c.Attrs, c.Address, true
	})
}

// WithAgent labels the calls under ctx with an agent's name, in place of Config.Agent.
func WithAgent(ctx context.Context, name string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Agent = clip(name) })
}

// WithStage labels the calls under ctx with the stage of the agent's work ("planner").
func WithStage(ctx context.Context, name string) context.Context {
	return with(ctx, func(s *scope) { s.labels.Stage = clip(name) })
}

// WithUser labels the calls under ctx with the user they are made for. It is published hashed (with the key
// LLMTAP_SHAPE_KEY, if that is set), unless Config.KeepUser says otherwise.
func WithUser(ctx context.Context, id string) context.Context {
	return with(ctx, func(s *scope) { s.labels.User = id })
}

// WithAttr adds an attribute to the calls under ctx. Keys are [a-z0-9._-]{1,64}; other keys, and more than 32, are
// ignored.
func WithAttr(ctx context.Context, key, value string) context.Context {
	return with(ctx, func(s *scope) {
		if !event.ValidAttrKey(key) || len(s.attrs) >= event.MaxAttrs && s.attrs[key] == "" {
			return
		}
		attrs := make(map[string]string, len(s.attrs)+1)
		maps.Copy(attrs, s.attrs)
		attrs[key] = clip(value)
		s.attrs = attrs
	})
}

// labels merges what the process and the context say; the context wins.
func (h *Hook) labels(s *scope) event.Labels {
	l := s.labels
	if !s.foreign {
		l.Service, l.ServiceVersion, l.Environment = h.cfg.Service, h.cfg.ServiceVersion, h.cfg.Environment
		if l.Agent == "" {
			l.Agent = h.cfg.Agent
		}
	}
	if l.User != "" && !h.cfg.KeepUser {
		l.User = hashUser(h.cfg.userKey, l.User)
	}
	l.User = clip(l.User)
	return l
}

// hashUser gives 16 hex digits: enough to tell users apart, too few to be worth reversing without the key.
func hashUser(key []byte, user string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(user))
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// clip returns the part of s that a header value can hold, so that nothing longer waits in memory.
func clip(s string) string {
	if len(s) <= event.MaxHeaderValue {
		return s
	}
	return strings.Clone(s[:event.MaxHeaderValue])
}

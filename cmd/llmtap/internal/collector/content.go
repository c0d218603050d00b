package collector

import (
	"crypto/rand"
	"fmt"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A contentPolicy applies a config.Content to the analyzers of a process. The zero value stores bodies unchanged.
type contentPolicy struct {
	cfg      config.Content
	redactor *redact.Redactor // nil if nothing is redacted
	key      []byte           // key for hashing the texts of shapes
}

// maxShape is the maximum size of a stored shape.
const maxShape = 8 << 20

// newContentPolicy returns the policy of a valid configuration. If shapeKey is empty, it generates a key.
func newContentPolicy(cfg config.Content, shapeKey string) (contentPolicy, error) {
	redactor, err := redact.NewRedactor(redact.Config{Kinds: cfg.Redact, Patterns: cfg.RedactPatterns})
	if err != nil {
		return contentPolicy{}, fmt.Errorf("content: %w", err)
	}
	if shapeKey == "" {
		shapeKey = rand.Text()
	}
	return contentPolicy{cfg: cfg, redactor: redactor, key: []byte(shapeKey)}, nil
}

// mode returns the mode of a service: full, shape or none.
func (p *contentPolicy) mode(service string) string {
	if mode, ok := p.cfg.Services[service]; ok {
		return mode
	}
	return p.cfg.Store
}

// apply configures a. Each analyzer has its own shaper, which is not safe for concurrent use.
func (p *contentPolicy) apply(a *analyzer.Analyzer) {
	var mask func(dst []byte, kind string, body []byte) []byte
	if p.redactor != nil {
		mask = content.NewRedactor(p.redactor).Append
	}
	a.KeepContents(func(service string) bool { return p.mode(service) != event.CaptureNone }, mask)
	a.SampleContents(content.NewSampler(p.cfg.Sampling))
	shaper := shape.New(p.key)
	a.ShapeContents(func(service string) bool { return p.mode(service) == event.CaptureShape }, func(dialect string, answer bool, body []byte) []byte {
		if answer {
			return shaper.Response(wire.Dialect(dialect), body, maxShape)
		}
		return shaper.Request(wire.Dialect(dialect), body, maxShape)
	})
}

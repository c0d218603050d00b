package main

import (
	"crypto/rand"
	"fmt"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
	"github.com/llmtap/llmtap/ingest/shape"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A contentPolicy is a config.Content ready for use by the analyzers of one process. The zero value stores all as it is.
type contentPolicy struct {
	cfg  config.Content
	mask *redact.Redactor // nil: nothing is masked
	key  []byte           // of shapes
}

// maxShape is the largest shape that is stored as one.
const maxShape = 8 << 20

// newContentPolicy takes a valid configuration. Without a key for shapes this process makes one.
func newContentPolicy(cfg config.Content, shapeKey string) (contentPolicy, error) {
	mask, err := redact.NewRedactor(redact.Config{Mask: cfg.Mask, Patterns: cfg.Patterns})
	if err != nil {
		return contentPolicy{}, fmt.Errorf("content: %w", err)
	}
	if shapeKey == "" {
		shapeKey = rand.Text()
	}
	return contentPolicy{cfg: cfg, mask: mask, key: []byte(shapeKey)}, nil
}

func (p *contentPolicy) of(service string) string {
	if mode, ok := p.cfg.Services[service]; ok {
		return mode
	}
	return p.cfg.Store
}

// apply tells an analyzer. Each has a shaper of its own, which works for one at a time.
func (p *contentPolicy) apply(a *analyzer.Analyzer) {
	a.KeepContents(func(service string) bool { return p.of(service) != event.CaptureNone }, func(dst, body []byte) []byte {
		if p.mask == nil {
			return append(dst, body...)
		}
		return p.mask.Append(dst, body)
	})
	shaper := shape.New(p.key)
	a.ShapeContents(func(service string) bool { return p.of(service) == event.CaptureShape }, func(dialect string, answer bool, body []byte) []byte {
		if answer {
			return shaper.Response(wire.Dialect(dialect), body, maxShape)
		}
		return shaper.Request(wire.Dialect(dialect), body, maxShape)
	})
}

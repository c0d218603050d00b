package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
	"github.com/llmtap/llmtap/ingest/shape"
)

// ContentConfig says what is stored of bodies that were captured in full. One that was captured as its shape is stored as it
// is, unless nothing is.
type ContentConfig struct {
	Store    string            `yaml:"store"`    // full, shape or none
	Services map[string]string `yaml:"services"` // the same by service
	Mask     []string          `yaml:"mask"`     // redact.Kinds
	Patterns []string          `yaml:"patterns"` // regular expressions of what is masked beside them
}

// messageRetention is how long what bodies hold is kept: long enough to look into last week's incident.
const messageRetention = 14 * 24 * time.Hour

func defaultContent() ContentConfig {
	return ContentConfig{Store: event.CaptureFull, Mask: slices.Clone(redact.Kinds)}
}

// Validate names every value that cannot work.
func (c *ContentConfig) Validate() error {
	var errs []error
	check := func(key, mode string) {
		switch mode {
		case event.CaptureFull, event.CaptureShape, event.CaptureNone:
		default:
			errs = append(errs, fmt.Errorf("%s: %q is none of full, shape and none", key, mode))
		}
	}
	check("store", c.Store)
	for _, service := range slices.Sorted(maps.Keys(c.Services)) {
		check("services."+service, c.Services[service])
	}
	_, err := redact.NewRedactor(redact.Config{Mask: c.Mask, Patterns: c.Patterns})
	return errors.Join(errors.Join(errs...), err)
}

// A contentPolicy is a ContentConfig ready for use by the analyzers of one process. The zero value stores all as it is.
type contentPolicy struct {
	cfg  ContentConfig
	mask *redact.Redactor // nil: nothing is masked
	key  []byte           // of shapes
}

// maxShape is the largest shape that is stored as one.
const maxShape = 8 << 20

// newContentPolicy takes a valid configuration. Without a key for shapes this process makes one.
func newContentPolicy(cfg ContentConfig, shapeKey string) (contentPolicy, error) {
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
			return shaper.Response(shape.Dialect(dialect), body, maxShape)
		}
		return shaper.Request(shape.Dialect(dialect), body, maxShape)
	})
}

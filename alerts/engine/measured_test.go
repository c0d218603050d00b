package engine

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Versions are compared as of any second, and what was compared does not change when more of its ten seconds is counted.
func TestMeasuredCells(t *testing.T) {
	var p measuredPoint
	p.n[0].calls = 1
	first, second := p, p
	first.at, second.at = 100, 110
	s := &samples{measured: map[versionStage][]measuredPoint{{stageKey{service: "shop"}, "2"}: {first, second}}}
	for step, want := range map[int64]int{109: 0, 110: 1, 119: 1, 120: 2} {
		must.Equal(t, len(s.measuredCells("shop", "2", "1", 0, step)), want, "cells at %d", step)
	}
}

package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// caching returns conversations of four turns with a long system prompt: the first of version 1.4.0, and then as many of 1.5.0. The system
// prompt of versions for which timed is true begins with the time. The provider reads what it has in common with the turn before from its cache.
// Every fifth conversation is compacted.
func caching(before, after int, timed func(version string) bool) func(p *pipeline) {
	return func(p *pipeline) {
		p.many(before+after, time.Second, func(i int) {
			if p.labels.ServiceVersion = "1.4.0"; i >= before {
				p.labels.ServiceVersion = "1.5.0"
			}
			var history []msg
			for turn := range 4 {
				rules := strings.Repeat("Answer in the language of the customer, and name the page of the handbook. ", 200)
				if timed(p.labels.ServiceVersion) {
					rules = "It is " + p.now.Format(time.RFC3339Nano) + ". " + rules
				}
				before, held := history, p.usage[0]
				if history = append(slices.Clone(history), question); i%5 == 4 && turn == 3 {
					history = history[2:]
				}
				p.usage[0] = 4000 + 20*len(history)
				p.read = func() int {
					switch {
					case turn == 0 || timed(p.labels.ServiceVersion):
						return 0
					case len(history) < len(before):
						return 3968
					}
					return held / 64 * 64
				}
				p.ok(p.answer, append([]msg{{"role": "system", "content": rules}}, history...)...)
				history = append(history, p.answer)
			}
		})
	}
}

// A stage that has always missed the cache is a problem of which nobody is notified.
func TestCacheAlwaysBroken(t *testing.T) {
	slowtest.Skip(t)
	p, _ := play(t, false, caching(300, 100, func(string) bool { return true }))
	must.Equal(t, fmt.Sprint(p.severities), "[CacheBroken none]", "alerts")
	must.Equal(t, p.first["CacheBroken"].Problem, "system_changed", "problem")
}

package wire

import (
	"net/http"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestFormatRateLimits(t *testing.T) {
	f := func(want string, pairs ...string) {
		t.Helper()
		h := http.Header{"X-Request-Id": {"req_1"}, "Set-Cookie": {"secret"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		must.Equal(t, FormatRateLimits(h), want, "rate limits")
	}
	f("")
	f("requests=9/10/1s tokens=//6m0s", "x-ratelimit-remaining-requests", "9", "x-ratelimit-limit-requests", "10", "x-ratelimit-reset-requests", "1s",
		"x-ratelimit-remaining-tokens", "", "x-ratelimit-limit-tokens", strings.Repeat("1", 33), "x-ratelimit-reset-tokens", "6m0s")
	f("input_tokens=5/7/2026-11-28T16:00:00Z", "anthropic-ratelimit-input-tokens-remaining", "5", "anthropic-ratelimit-input-tokens-limit", "7",
		"anthropic-ratelimit-input-tokens-reset", "2026-11-28T16:00:00Z")
	f("requests=717/720/ tokens=4999911/5000000/", "x-ratelimit-limit-tokens-minute", "5000000", "x-ratelimit-remaining-tokens-minute", "4999911",
		"x-ratelimit-limit-req-minute", "720", "x-ratelimit-remaining-req-minute", "717")
	f("retry_after=20 retry_after_ms=19600", "Retry-After", "20", "Retry-After", "30", "Retry-After-Ms", "19600")
	f("", "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT", "x-ratelimit-limit-requests", "10")
}

// A hook looks headers up by these names, which must be the keys of an http.Header. The longest values of a provider fit into the
// header of an event.
func TestRateLimitNames(t *testing.T) {
	h, all := http.Header{}, strings.Repeat("1", maxLimitValue)
	for _, r := range rateLimitHeaders {
		for _, name := range []string{r.Remaining, r.Limit, r.Reset} {
			must.Equal(t, http.CanonicalHeaderKey(name), name, "canonical name")
			if strings.HasPrefix(name, "Anthropic-") {
				h.Set(name, all)
			}
		}
	}
	for _, name := range retryAfter {
		must.Equal(t, http.CanonicalHeaderKey(name), name, "canonical name")
	}
	if n := len(FormatRateLimits(h)); n == 0 || n > 512 {
		t.Errorf("%d bytes", n)
	}
}

func BenchmarkFormatRateLimits(b *testing.B) {
	h := http.Header{}
	for range 2 {
		b.Run(map[bool]string{true: "None", false: "OpenAI"}[len(h) == 0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				FormatRateLimits(h)
			}
		})
		for _, r := range rateLimitHeaders[:2] {
			h.Set(r.Remaining, "149984")
			h.Set(r.Limit, "150000")
			h.Set(r.Reset, "6m0s")
		}
	}
}

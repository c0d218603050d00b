package analyzer

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var limitsAt = time.Date(2026, 11, 28, 16, 0, 0, 0, time.UTC)

func TestParseRateLimit(t *testing.T) {
	f := func(text string, want RateLimit) {
		t.Helper()
		got, ok := parseRateLimit(text, limitsAt)
		must.Equal(t, ok, want.Kind != "", "known: %s", text)
		if ok {
			must.Equal(t, got, want, "%s", text)
		}
	}
	f("requests=9999/10000/8.64s", RateLimit{Kind: "requests", Remaining: 9999, Limit: 10000, Reset: 9})
	f("tokens=0/150000/6m0s", RateLimit{Kind: "tokens", Limit: 150000, Reset: 360})
	f("tokens=1/2/12ms", RateLimit{Kind: "tokens", Remaining: 1, Limit: 2, Reset: 1})
	f("input_tokens=5/7/2026-11-28T16:00:30Z", RateLimit{Kind: "input_tokens", Remaining: 5, Limit: 7, Reset: 30})
	f("output_tokens=5/7/2026-11-28T15:59:00Z", RateLimit{Kind: "output_tokens", Remaining: 5, Limit: 7, Reset: 1}) // now, by this clock
	f("requests=0/20/1795881660000", RateLimit{Kind: "requests", Limit: 20, Reset: 60})
	f("requests=0/20/1795881660", RateLimit{Kind: "requests", Limit: 20, Reset: 60})
	f("requests=717/720/", RateLimit{Kind: "requests", Remaining: 717, Limit: 720})
	f("requests=1.5/2.0/30", RateLimit{Kind: "requests", Remaining: 1, Limit: 2, Reset: 30})
	f("requests=-3//soon", RateLimit{Kind: "requests"})
	f("requests=9/5/NaN", RateLimit{Kind: "requests", Remaining: 9})
	f("requests=9", RateLimit{Kind: "requests", Remaining: 9})
	f("requests=9/10/99999999999999999999", RateLimit{Kind: "requests", Remaining: 9, Limit: 10})
	for _, none := range []string{"", "requests", "requests=/10/1s", "requests=NaN/1/1", "requests=1e300//", "images=1/2/3", "retry_after=20", "requests=many/10/1s"} {
		f(none, RateLimit{})
	}
}

// FuzzRateLimit adds any text to a tally: it holds no more than it may, and what is unknown is none.
func FuzzRateLimit(f *testing.F) {
	for _, s := range []string{
		"requests=9999/10000/8.64s tokens=149984/150000/6m0s retry_after=20", "tokens=1/2/12ms requests=0/20/1795881660000", "requests=-1/x/NaN tokens=//",
		"input_tokens=399993/400000/2026-11-28T16:00:00Z output_tokens=7/80000/2026-11-28T16:00:00.5+01:00", "requests=1e999/+Inf/-1h requests=0x10/1_0/1e12",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg := Default()
		c := newCounter(&cfg)
		c.rateLimits(&series{labelModel: text}, text, limitsAt)
		if len(c.limits) > 4 {
			t.Errorf("%d limits", len(c.limits))
		}
		for _, r := range c.limits {
			if r.Reset > maxReset || r.Remaining > 1<<53 || r.Limit != 0 && r.Limit < r.Remaining {
				t.Errorf("%q is %+v", text, r)
			}
		}
	})
}

// A tally has the least that remained of each limit in its second.
func TestRateLimits(t *testing.T) {
	cfg := Default()
	c := newCounter(&cfg)
	add := func(service, model, text string) {
		p := &pending{limits: text}
		p.row.Labels.Service, p.row.Provider, p.row.Model, p.row.Status = service, "openai", model, 200
		c.exchange(p, [2][]*session.Call{}, nil, nil, false, 1, limitsAt)
	}
	add("shop", "gpt-5", "requests=40/50/1s tokens=900/1000/6m0s")
	add("shop", "gpt-5", "requests=38/50/2s tokens=950/1000/6m0s")
	add("shop", "gpt-5-mini", "requests=39/50/1s")
	add("shop", "gpt-5", "")
	add("other", "gpt-5", "retry_after=3")
	limit := func(model, kind string, remaining, limit, reset uint64) RateLimit {
		return RateLimit{Service: "shop", Provider: "openai", Model: model, Kind: kind, Remaining: remaining, Limit: limit, Reset: reset}
	}
	got := c.take()
	must.Equal(t, len(got.RateLimits), 3, "limits")
	for i, want := range []RateLimit{limit("gpt-5", "requests", 38, 50, 2), limit("gpt-5", "tokens", 900, 1000, 360), limit("gpt-5-mini", "requests", 39, 50, 1)} {
		must.Equal(t, got.RateLimits[i], want, "limit %d", i)
	}
	add("shop", "gpt-5", "")
	if next := c.take(); next.RateLimits != nil {
		t.Errorf("next second: %+v", next.RateLimits)
	}
}

package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// limitsOf returns the gauges after minutes 100, 101 … in which so much of 1000 remained, as RateLimitNear queries them.
func limitsOf(reset uint64, remaining ...float64) map[string]float64 {
	l := limits{}
	for i, v := range remaining {
		if v >= 0 {
			l.add(int64(60*(100+i)), &analyzer.RateLimit{Service: "shop", Provider: "openai", Model: "gpt-5", Kind: "tokens", Remaining: 1000, Limit: 1000, Reset: reset})
			l.add(int64(60*(100+i)+30), &analyzer.RateLimit{Service: "shop", Provider: "openai", Model: "gpt-5", Kind: "tokens", Remaining: uint64(v), Limit: 1000, Reset: reset})
		}
	}
	got := map[string]float64{}
	for _, g := range l.gauges(int64(60 * (100 + len(remaining)))) {
		got[g.Metric] = g.Value
	}
	return got
}

func TestLimits(t *testing.T) {
	// minutes is until nothing remains, 0 if that is not in sight.
	f := func(name string, minutes float64, reset uint64, remaining ...float64) {
		t.Helper()
		got := limitsOf(reset, remaining...)
		must.Equal(t, got[rules.MetricLimitExhausted]/60, minutes, "%s: minutes", name)
	}
	f("falls", 8, 60, 200, 190, 180, 170, 160, 150, 140, 130, 120, 110, 100, 90, 80, 10) // the last minute is not complete
	f("falls, with an odd minute", 3, 60, 500, 450, 400, 350, 300, 310, 200, 150, 100)
	f("five minutes", 0, 60, 600, 500, 400, 300, 200, 100)
	f("flat", 0, 60, 50, 50, 50, 50, 50, 50, 50, 50)
	f("low, up and down", 0, 60, 90, 80, 95, 70, 85, 75, 90, 80, 85)
	f("used up", 0, 60, 500, 400, 300, 200, 100, 0, 0)
	f("rises", 0, 60, 100, 200, 300, 400, 500, 600, 700)
	f("long before a reset", 3, 4*3600, 500, 450, 400, 350, 300, 250, 200, 150, 100)
	f("shortly before a reset", 0, 9*60, 500, 490, 480, 470, 460, 450, 440, 430, 420)
	f("minutes since a reset", 4, 3600, 30, 20, 10, 900, 800, 700, 600, 500, 400, 300)
	f("gaps", 3, 60, 1000, 900, -1, 700, 600, -1, 400, 300, 250)
	must.Equal(t, limitsOf(60, 300, 90, 200)[rules.MetricLimitRemaining], 90., "the least of the last two minutes")
	must.Equal(t, len(limitsOf(60, 300, 90, -1, -1, -1, -1)), 0, "gauges after four minutes without calls")
}

// Healthy limits are not near their end. The load of half of the buckets varies in waves of 5 to 30 minutes, by a third of the 45% or more
// that remain; the others are low, and vary at random only. At most one in a thousand minutes is taken for a fall to nothing within a
// quarter of an hour, while less than a fifth is left.
func TestHealthyLimits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	minutes, near := 0, 0
	for i := range 200 {
		l, wave, level, height := limits{}, 5+25*rnd.Float64(), 0.45+0.4*rnd.Float64(), 0.33
		if i%2 > 0 {
			level, height = 0.05+0.2*rnd.Float64(), 0
		}
		for m := range int64(200) {
			share := level * (1 + height*math.Sin(2*math.Pi*float64(m)/wave) + 0.15*rnd.NormFloat64())
			l.add(60*m+5, &analyzer.RateLimit{Service: "shop", Provider: "openai", Model: "gpt-5", Kind: "requests", Remaining: uint64(max(1, 1e4*share)), Limit: 1e4, Reset: 55})
			var remaining, in float64
			for _, g := range l.gauges(60*m + 31) {
				switch g.Metric {
				case rules.MetricLimitRemaining:
					remaining = g.Value
				case rules.MetricLimitExhausted:
					in = g.Value
				}
			}
			minutes++
			if in > 0 && in <= 900 && remaining <= 2000 {
				near++
			}
		}
	}
	t.Logf("%d of %d minutes", near, minutes)
	if near > minutes/1000 {
		t.Errorf("%d of %d minutes", near, minutes)
	}
}

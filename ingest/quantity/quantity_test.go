package quantity

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTexts(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		must.Equal(t, got, want, "text")
	}
	f(Count(0), "0")
	f(Count(999), "999")
	f(Count(uint64(1_234_567)), "1,234,567")
	f(Count(-123_456), "-123,456")
	f(Plural(1, "call"), "1 call")
	f(Plural(int64(12_345), "call"), "12,345 calls")

	f(Share(43, 98), "44%")
	f(Share(5, 130), "3.8%")
	f(Share(1, 8), "12%") // ClickHouse also rounds a half to the even number
	f(Share(3, 100), "3%")
	f(Share(996, 10_000), "10%")
	f(Share(1, 1000), "0.1%")
	f(Share(1, 10_000), "<0.1%")
	f(Share(0, 7), "0%")
	f(Share(999, 1000), ">99%")
	f(Share(99, 100), "99%")
	f(Share(5, 5), "100%")
	f(Share(0, 0), "–")

	f(Latency(0), "0 s")
	f(Latency(0.0161), "0.016 s")
	f(Latency(1.5), "1.5 s")
	f(Latency(123.4567), "123.457 s")

	f(Money(0), "$0")
	f(Money(0.004), "under $0.01")
	f(Money(1234.5), "$1234.50")

	f(Span(40*time.Second), "40 s")
	f(Span(14*time.Minute+59*time.Second), "14 min")
	f(Span(time.Hour), "1 h")
	f(Span(-125*time.Minute), "2 h 5 min")
	f(Span(76*time.Hour+59*time.Minute), "3 d 4 h")
}

// Package quantity writes numbers, shares and times as people read them. Pages, messages and commands use it, so a quantity has the
// same text everywhere. The statements of dashboards/queries round in the same way.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Count returns n with separators: 12,345.
func Count[N number](n N) string {
	s := strconv.FormatFloat(float64(n), 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns n and its noun: 1 call, 12,345 calls.
func Plural[N number](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Share returns part as a percentage of all, with a decimal below 10%: 38%, 3.8%. It is 0% only for none and 100% only for all; of
// nothing, there is no share.
func Share[N number](part, all N) string {
	if all == 0 {
		return "–"
	}
	switch p := 100 * float64(part) / float64(all); {
	case part > 0 && p < 0.1:
		return "<0.1%"
	case part < all && p > 99:
		return ">99%"
	}
	return strconv.FormatFloat(Percent(part, all), 'f', -1, 64) + "%"
}

// Percent returns the number of Share, as {percent} of dashboards/queries does; 0 of nothing.
func Percent[N number](part, all N) float64 {
	if all == 0 {
		return 0
	}
	p := 100 * float64(part) / float64(all)
	if p < 10 {
		return math.RoundToEven(10*p) / 10
	}
	return math.RoundToEven(p)
}

// Latency returns seconds to the millisecond: 0.016 s, 1.5 s. The unit never changes, so that rows of a table can be compared.
func Latency(seconds float64) string {
	return strconv.FormatFloat(math.RoundToEven(1000*seconds)/1000, 'f', -1, 64) + " s"
}

// Money returns dollars to the cent: $0, under $0.01, $1234.50. Rules of alerts write it with "$%.2f".
func Money(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd < 0.01:
		return "under $0.01"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// Span returns d in one unit, or from an hour on in two: 40 s, 14 min, 2 h 5 min, 3 d 4 h.
func Span(d time.Duration) string {
	d = d.Abs()
	two := func(unit time.Duration, name string, next time.Duration, nextName string) string {
		text := fmt.Sprintf("%d %s", d/unit, name)
		if n := d % unit / next; n > 0 {
			text += fmt.Sprintf(" %d %s", n, nextName)
		}
		return text
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 24*time.Hour:
		return two(time.Hour, "h", time.Minute, "min")
	}
	return two(24*time.Hour, "d", time.Hour, "h")
}

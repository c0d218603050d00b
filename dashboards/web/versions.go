package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	// maxVersions is the number of versions shown of a service, the newest ones; maxOthers if all services are shown.
	maxVersions = 12
	maxOthers   = 2
	// certain is the p-value below which a difference between two versions is reported.
	certain = 0.01
)

// A versionsPage compares versions.
type versionsPage struct {
	*site
	store
}

// ServeHTTP serves the comparison of a service's versions.
func (s versionsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Versions", "/versions")
	s.serve(w, r, p,
		section{id: "versions", template: "versions", load: func(ctx context.Context) (any, error) { return s.services(ctx, p.View) }},
		section{id: "failures", template: "versions-failures", title: "Failed calls by version", load: func(ctx context.Context) (any, error) {
			return s.failedCalls(ctx, p.View, "failures_by_version", "version", "Failed calls by version over time")
		}},
		s.cacheSection(p, true),
	)
}

// A service is a service with its versions, the newest first.
type service struct {
	Name     string
	URL      string
	Versions []version
	More     int // older versions that are not shown
	Verdict  string
	Worse    bool // the newest version is worse
}

// A version is a row of the comparison.
type version struct {
	Version       string
	Calls, Failed int64
	Reasons       []reasonCalls
	Conversations int64
	Tokens        float64 // per call
	Median, Slow  float64 // seconds
	First, Last   Time
	FirstFailure  time.Time
}

// A reasonCalls is a reason and the calls that failed for it.
type reasonCalls struct {
	reason
	Calls int64
	URL   string
}

func (s versionsPage) services(ctx context.Context, v *View) ([]*service, error) {
	rows, err := s.query(ctx, "versions", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	var out []*service
	for _, r := range rows {
		name := r.Text("service")
		if len(out) == 0 || out[len(out)-1].Name != name {
			out = append(out, &service{Name: name, URL: v.Here("service", name)})
		}
		x := version{
			Version: r.Text("service_version"), Calls: r.Int64("calls"), Failed: r.Int64("failed_calls"), Conversations: r.Int64("conversations"),
			Tokens: r.Float("tokens"), Median: r.Float("p50"), Slow: r.Float("p95"),
			First: v.At(r.Time("first_call")), Last: v.At(r.Time("last_call")), FirstFailure: r.Time("first_failure"),
		}
		reasons, _ := r["reasons"].([]string)
		calls, _ := r["reason_calls"].([]uint64)
		for i, text := range reasons {
			if i == 3 || i >= len(calls) {
				break
			}
			why := parseReason(text)
			x.Reasons = append(x.Reasons, reasonCalls{why, int64(calls[i]), v.With("/incident", "service", name, "version", x.Version, "why", why.ID)})
		}
		one := out[len(out)-1]
		one.Versions = append(one.Versions, x)
	}
	for _, one := range out {
		one.judge(v)
	}
	most := maxVersions
	if len(out) > 1 {
		most = maxOthers
	}
	for _, one := range out {
		if n := len(one.Versions); n > most {
			one.More, one.Versions = n-most, one.Versions[:most]
		}
	}
	slices.SortStableFunc(out, func(a, b *service) int { // what is worse comes first
		return cmp.Or(btoi(b.Worse)-btoi(a.Worse), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// judge compares the newest version with the one before, by Fisher's exact test, which also holds for few calls.
func (s *service) judge(v *View) {
	if len(s.Versions) < 2 {
		s.Verdict = "One version in this time: nothing to compare with."
		return
	}
	a, b := &s.Versions[0], &s.Versions[1]
	p := fisher(a.Failed, a.Calls, b.Failed, b.Calls)
	rates := fmt.Sprintf("%s of the calls (%s of %s) against %s (%s of %s)", quantity.Share(a.Failed, a.Calls), quantity.Count(a.Failed), quantity.Count(a.Calls),
		quantity.Share(b.Failed, b.Calls), quantity.Count(b.Failed), quantity.Count(b.Calls))
	newer, older := cmp.Or(a.Version, "the calls without a version"), cmp.Or(b.Version, "the calls without a version")
	more := float64(a.Failed)*float64(b.Calls) > float64(b.Failed)*float64(a.Calls)
	switch {
	case p < certain && more:
		s.Verdict, s.Worse = fmt.Sprintf("%s fails more often than %s: %s", newer, older, rates), true
		if !a.FirstFailure.IsZero() {
			s.Verdict += ", since " + v.At(a.FirstFailure).Absolute()
		}
		s.Verdict += "."
	case p < certain:
		s.Verdict = fmt.Sprintf("%s fails less often than %s: %s.", newer, older, rates)
	case a.Failed+b.Failed == 0:
		s.Verdict = fmt.Sprintf("Neither %s nor %s failed, in %s and %s.", newer, older, quantity.Plural(a.Calls, "call"), quantity.Plural(b.Calls, "call"))
	case fewest(a, b) >= certain:
		s.Verdict = fmt.Sprintf("Too few calls to tell %s from %s: %s.", newer, older, rates)
	default:
		s.Verdict = fmt.Sprintf("No clear difference between %s and %s: %s.", newer, older, rates)
	}
}

// fewest returns the smallest p-value that the numbers of calls allow: that of all failures in a.
func fewest(a, b *version) float64 {
	failed := min(a.Failed+b.Failed, a.Calls)
	return fisher(failed, a.Calls, 0, b.Calls)
}

// fisher returns the two-sided p-value of Fisher's exact test (twice the smaller tail) for a failures in m calls and b failures
// in n calls: the probability of a difference that large if both fail equally often.
func fisher(a, m, b, n int64) float64 {
	if m == 0 || n == 0 || a+b == 0 {
		return 1
	}
	lchoose := func(n, k int64) float64 {
		x, _ := math.Lgamma(float64(n) + 1)
		y, _ := math.Lgamma(float64(k) + 1)
		z, _ := math.Lgamma(float64(n-k) + 1)
		return x - y - z
	}
	k := a + b
	log := func(i int64) float64 { return lchoose(m, i) + lchoose(n, k-i) - lchoose(m+n, k) }
	tail := func(step, end int64) (sum float64) {
		for i := a; ; i += step {
			p := math.Exp(log(i))
			sum += p
			if i == end || p < sum*1e-9 { // the terms fall from the observed value to the end, or the sum is near 1
				return sum
			}
		}
	}
	up, down := tail(1, min(k, m)), tail(-1, max(0, k-n))
	return min(1, 2*min(up, down))
}

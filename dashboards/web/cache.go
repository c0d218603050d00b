package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A cacheReport is what became of the providers' prompt caches in a time range.
type cacheReport struct {
	cacheUse
	Verdict     string
	ReadChart   *Chart // of the reusable tokens, those that were read, over time
	MissedChart *Chart // missed tokens by reason
	Breaks      []cacheBreak
	Versions    []cacheVersion // newest first
	More        int            // breaks that are not shown
}

// A cacheUse is a sum over calls whose answers say what was read.
type cacheUse struct {
	Calls, Input, Cached, Reusable, Missed int64
	Cost                                   float64 // of Missed
	Unpriced                               int64   // of Missed, tokens without a known price
}

// Read returns the reusable tokens that were read.
func (u *cacheUse) Read() int64 { return u.Reusable - u.Missed }

// Price returns what the missed tokens cost, in words.
func (u *cacheUse) Price() string {
	switch {
	case u.Missed == 0:
		return "–"
	case u.Unpriced == u.Missed:
		return "price unknown"
	case u.Unpriced > 0:
		return "over " + dollars(u.Cost)
	}
	return dollars(u.Cost)
}

func (u *cacheUse) add(r stored.Row) {
	u.Calls, u.Input, u.Cached = u.Calls+r.Int64("calls"), u.Input+r.Int64("input_tokens"), u.Cached+r.Int64("cached_tokens")
	u.Reusable, u.Missed = u.Reusable+r.Int64("reusable"), u.Missed+r.Int64("missed")
	u.Cost, u.Unpriced = u.Cost+r.Float("missed_usd"), u.Unpriced+r.Int64("unpriced")
}

// worse orders by cost, the largest first; then by missed tokens.
func worse(a, b *cacheUse) int {
	return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Unpriced, a.Unpriced), cmp.Compare(b.Missed, a.Missed))
}

// A cacheBreak is a reason of a stage for which tokens were missed.
type cacheBreak struct {
	cacheUse
	Service, Stage, Why  string
	Reason               string
	FirstVersion         string
	LastClean            string // newest version before FirstVersion that shows it is clean of it
	Daily                string // cost of a day at the rate since the first call
	First                Time
	Avoidable            bool
	FirstCall, WorstCall string // URLs
	firstID, worstID     string
	firstAt              time.Time
	element, detail      string
	worst                int64
	versions             []string // that show it
}

// A cacheVersion is what became of the cache in the calls of a version.
type cacheVersion struct {
	cacheUse
	Service, Version string
	Why              string // the reason that costs most
	first            time.Time
	worst            cacheUse
}

const (
	maxBreaks = 12
	// unlikely is the probability below which a version without a break is called clean of it.
	unlikely = 0.05
	// fewCalls show no rate.
	fewCalls = 20
)

// cacheSection is the section about prompt caches; it is empty if no answer says what was read from one.
func (s store) cacheSection(p *page, byVersion bool) section {
	return section{id: "cache", template: "cache", title: "Prompt cache", load: func(ctx context.Context) (any, error) { return s.cache(ctx, p.View, byVersion) }}
}

func (s store) cache(ctx context.Context, v *View, byVersion bool) (*cacheReport, error) {
	values := v.values()
	if byVersion {
		delete(values, "version")
	}
	rows, err := s.query(ctx, "cache_breaks", values, v.Now)
	if err != nil || len(rows) == 0 {
		if down(err) { // the sections before say so
			err = nil
		}
		return nil, err
	}
	out := &cacheReport{}
	for _, r := range rows {
		out.add(r)
	}
	if out.Reusable == 0 && out.Cached == 0 {
		return nil, nil
	}
	if byVersion {
		out.Versions = cacheVersions(rows)
		out.Verdict = out.sentence()
		return out, nil
	}
	out.Breaks = cacheBreaks(v, rows)
	out.Verdict = out.sentence()
	if n := len(out.Breaks); n > maxBreaks {
		out.More, out.Breaks = n-maxBreaks, out.Breaks[:maxBreaks]
	}
	return out, s.cacheOverTime(ctx, v, out)
}

// sentence says how much of what could be read was read, and what costs most.
func (c *cacheReport) sentence() string {
	if c.Reusable == 0 {
		return fmt.Sprintf("%s of %s were read from the cache. No earlier prompt is known that could have been read instead.",
			quantity.Share(c.Cached, c.Input), quantity.Plural(c.Input, "input token"))
	}
	text := fmt.Sprintf("%s of the tokens that could be read from the cache were: %s of %s.",
		quantity.Share(c.Read(), c.Reusable), quantity.Count(c.Read()), quantity.Count(c.Reusable))
	if c.Missed == 0 {
		return text
	}
	text += fmt.Sprintf(" The other %s cost %s", quantity.Count(c.Missed), c.extra())
	if len(c.Breaks) > 0 {
		text += "; the largest part because " + c.Breaks[0].Why
		if c.Breaks[0].LastClean != "" {
			text += ", since " + c.Breaks[0].FirstVersion
		}
	}
	if len(c.Versions) > 1 {
		most := slices.MinFunc(c.Versions, func(a, b cacheVersion) int { return worse(&a.cacheUse, &b.cacheUse) })
		text += "; the largest part in " + cmp.Or(most.Version, "calls without a version") + " of " + most.Service + ", because " + most.Why
	}
	return text + "."
}

// extra returns what the missed tokens cost more than if they had been read.
func (u *cacheUse) extra() string {
	if u.Unpriced == u.Missed {
		return "more, at a price that is not known"
	}
	return u.Price() + " more"
}

// cacheBreaks returns the breaks in rows, the most expensive first.
func cacheBreaks(v *View, rows []stored.Row) []cacheBreak {
	type stageKey struct{ service, stage string }
	type key struct {
		stageKey
		reason, element, detail string
	}
	type versionUse struct {
		first   time.Time
		calls   int64
		reasons map[string]bool
	}
	stages := map[stageKey]map[string]*versionUse{}
	breaks := map[key]*cacheBreak{}
	for _, r := range rows {
		k := key{stageKey{r.Text("service"), r.Text("stage")}, r.Text("reason"), r.Text("element"), r.Text("detail")}
		if stages[k.stageKey] == nil {
			stages[k.stageKey] = map[string]*versionUse{}
		}
		version, at := r.Text("service_version"), r.Time("first_call")
		u := stages[k.stageKey][version]
		if u == nil {
			u = &versionUse{first: at, reasons: map[string]bool{}}
			stages[k.stageKey][version] = u
		}
		u.calls, u.reasons[k.reason] = u.calls+r.Int64("calls"), true
		if at.Before(u.first) {
			u.first = at
		}
		if k.reason == "" {
			continue
		}
		b := breaks[k]
		if b == nil {
			b = &cacheBreak{Service: k.service, Stage: k.stage, Reason: k.reason, element: k.element, detail: k.detail, firstAt: at.Add(1)}
			breaks[k] = b
		}
		b.add(r)
		b.versions = append(b.versions, version)
		if at.Before(b.firstAt) {
			b.firstAt, b.firstID, b.FirstVersion = at, r.Text("first_exchange_id"), version
		}
		if n := r.Int64("most_missed"); b.worstID == "" || n > b.worst {
			b.worst, b.worstID = n, r.Text("worst_exchange_id")
		}
	}
	out := make([]cacheBreak, 0, len(breaks))
	for k, b := range breaks {
		b.Why, b.Avoidable, b.First = promptcache.Words(b.Reason, b.element, b.detail), promptcache.Avoidable(b.Reason), v.At(b.firstAt)
		b.FirstCall, b.WorstCall = v.exchangeURL(b.firstID), v.exchangeURL(b.worstID)
		var with int64 // calls of the versions that show it
		for _, version := range b.versions {
			with += stages[k.stageKey][version].calls
		}
		var clean time.Time
		for version, u := range stages[k.stageKey] {
			if version != "" && !u.reasons[b.Reason] && u.first.Before(b.firstAt) && u.first.After(clean) && math.Pow(1-float64(b.Calls)/float64(with), float64(u.calls)) < unlikely {
				clean, b.LastClean = u.first, version
			}
		}
		if !b.Avoidable { // no version is to blame
			b.FirstVersion, b.LastClean = "", ""
		}
		b.Daily = b.daily(v)
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b cacheBreak) int {
		return cmp.Or(worse(&a.cacheUse, &b.cacheUse), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Why, b.Why))
	})
	return out
}

// daily returns the cost of a day at the rate since the first call, as the alert does. A few calls have no rate: theirs is that since a
// sixth of the time range, if that is longer.
func (b *cacheBreak) daily(v *View) string {
	if b.Cost == 0 {
		return "–"
	}
	since := max(v.To.Sub(b.firstAt), time.Minute)
	if b.Calls < fewCalls {
		since = max(since, v.To.Sub(v.From)/6)
	}
	return dollars(b.Cost / since.Hours() * 24)
}

// cacheVersions returns the versions in rows, by service, the newest first.
func cacheVersions(rows []stored.Row) []cacheVersion {
	index := map[[2]string]*cacheVersion{}
	var all []*cacheVersion
	for _, r := range rows {
		k := [2]string{r.Text("service"), r.Text("service_version")}
		c := index[k]
		if c == nil {
			c = &cacheVersion{Service: k[0], Version: k[1], first: r.Time("first_call")}
			index[k], all = c, append(all, c)
		}
		c.add(r)
		if at := r.Time("first_call"); at.Before(c.first) {
			c.first = at
		}
		var one cacheUse
		if one.add(r); one.Missed > 0 && worse(&one, &c.worst) < 0 {
			c.worst, c.Why = one, promptcache.Words(r.Text("reason"), r.Text("element"), r.Text("detail"))
		}
	}
	slices.SortFunc(all, func(a, b *cacheVersion) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), b.first.Compare(a.first))
	})
	out := make([]cacheVersion, 0, len(all))
	of := map[string]int{}
	for _, c := range all {
		if of[c.Service]++; of[c.Service] <= maxVersions {
			out = append(out, *c)
		}
	}
	return out
}

// cacheOverTime sets the charts of out.
func (s store) cacheOverTime(ctx context.Context, v *View, out *cacheReport) error {
	if out.Reusable == 0 {
		return nil
	}
	c := v.newChart("Reusable tokens that were read", "percent")
	values := v.values()
	values["step"] = []string{strconv.Itoa(int(c.Step.Seconds()))}
	rows, err := s.query(ctx, "cache_over_time", values, v.Now)
	if err != nil {
		return err
	}
	sums := map[time.Time]*cacheUse{}
	var broken []stored.Row
	for _, r := range rows {
		at := r.Time("time")
		if sums[at] == nil {
			sums[at] = &cacheUse{}
		}
		sums[at].add(r)
		if r.Text("reason") != "" {
			r["why"] = promptcache.Words(r.Text("reason"), "", "")
			broken = append(broken, r)
		}
	}
	share := slices.Repeat([]float64{math.NaN()}, len(c.Starts))
	for at, u := range sums {
		if i := c.bar(at); i >= 0 && u.Reusable > 0 {
			share[i] = 100 * float64(u.Read()) / float64(u.Reusable)
		}
	}
	c.Lines, c.Text, c.Series = true, percentText, []ChartSeries{{Class: "c3", Values: share}}
	out.ReadChart = c
	if len(broken) > 0 {
		out.MissedChart = v.newChart("Missed tokens by reason", "missed token")
		out.MissedChart.addSeries(out.MissedChart.collect(broken, "why", "missed"))
	}
	if began, err := s.query(ctx, "versions_began", v.values(), v.Now); err == nil { // marks are a help only
		for _, r := range slices.Backward(began) {
			c.Marks = append(c.Marks, Mark{r.Time("began"), r.Text("service") + " " + r.Text("new_version")})
		}
	}
	return nil
}

package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// An incident is what a page is about: a problem, an alert about none, or the calls of a stage that failed with one cause.
type incident struct {
	view    *View
	alert   *Incident // nil if the page is not about an alert
	problem *Problem  // nil if the page is not about a problem
	values  queries.Values
	Why     string // cause or root cause; empty: any
	Rules   []string

	measured *measured // nil unless the page is about an unusual measure

	// What the sources other than ClickHouse know of the cause.
	known       change
	marks       []Mark // of the time line
	description string
	commands    []string
}

// An incidentPage shows an incident.
type incidentPage struct {
	*site
	trends
	incidents Incidents // nil: only rows are known
	tallies   Tallies
	problems  Problems // nil: none
	controls  Controls // nil: none
}

// ofAlert leads to the problem of an alert, or serves the page about the alert if it is about none.
func (s incidentPage) ofAlert(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Incident", "")
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	var err error
	problem := ""
	a := await(s.site, w, r, p, func() (a *Incident) {
		a, err = s.alert(ctx, r.PathValue("id"), p.View)
		problem = s.problemOf(ctx, r.PathValue("id"), a)
		return a
	})
	switch {
	case problem != "":
		s.redirect(w, r, p, p.With("/problem/"+problem))
		return
	case err != nil:
		s.missing(w, r, p, err)
		return
	}
	p.Title = a.Subject
	x := &incident{view: p.View, alert: a, Why: cmp.Or(p.Get("why"), a.Cause), Rules: a.Rules, description: a.Description, commands: a.Commands}
	x.setRange(a.StartsAt, a.EndsAt, a.Window)
	x.filter(a.Labels)
	if x.Why == a.Cause {
		x.known = change{FirstBad: a.FirstBad, LastClean: a.LastClean, First: p.At(a.FirstAt)}
	}
	x.marks = []Mark{{a.StartsAt, "alert"}, {a.EndsAt, "end"}}
	if a.Stored && a.Cause != "" && !s.failedWith(ctx, w, r, p, x) {
		for _, c := range a.Causes {
			x.Rules = append(x.Rules, c.ID)
		}
	}
	s.serveIncident(w, r, p, x)
}

// redirect leads to a page of this site, also if it is too late for a redirect.
func (s *site) redirect(w http.ResponseWriter, r *http.Request, p *page, target string) {
	if p.begun {
		s.serve(w, r, p, section{id: "found", template: "search-found", load: func(context.Context) (any, error) { return target, nil }})
		return
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// missing serves the reason why there is nothing to show.
func (s incidentPage) missing(w http.ResponseWriter, r *http.Request, p *page, err error) {
	p.Static = true
	status := http.StatusServiceUnavailable
	if errors.Is(err, ErrNotFound) {
		status = http.StatusNotFound
	}
	s.serveStatus(w, r, status, p, section{id: "missing", template: "incident-missing", load: func(context.Context) (any, error) { return nil, err }})
}

// filter restricts x to calls with these labels, unless the URL does.
func (x *incident) filter(labels map[string]string) {
	x.values = x.view.values()
	for _, name := range filterNames {
		if value := labels[name]; value != "" && x.values[name] == nil {
			x.values[name] = []string{value}
		}
	}
}

// failedWith reports whether calls failed with the cause of x. Otherwise it is that of findings.
func (s incidentPage) failedWith(ctx context.Context, w http.ResponseWriter, r *http.Request, p *page, x *incident) bool {
	return await(s.site, w, r, p, func() bool {
		rows, err := s.query(ctx, "incident_failed", x.with("why", x.Why), p.Now)
		return err != nil || len(rows) > 0
	})
}

// ofCause serves the page about the calls of a stage that failed with a cause, or leads to the problem.
func (s incidentPage) ofCause(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Incident", "")
	ctx := r.Context()
	if id := await(s.site, w, r, p, func() string { return s.problemOfCause(ctx, p.View) }); id != "" {
		s.redirect(w, r, p, p.With("/problem/"+id, "service", "", "stage", "", "environment", ""))
		return
	}
	p.Title = subject(p.Get("service"), p.Get("stage"))
	s.serveIncident(w, r, p, &incident{view: p.View, values: p.values(), Why: p.Get("why")})
}

// subject names a stage.
func subject(service, stage string) string {
	switch {
	case service != "" && stage != "":
		return service + "/" + stage
	case service+stage != "":
		return service + stage
	}
	return "All services"
}

// setRange shows the time from before start until now, or until after the end if it is not zero, unless the URL contains a time
// range. Calls were counted in a window before the start.
func (x *incident) setRange(start, ended time.Time, window time.Duration) {
	v := x.view
	for _, name := range []string{"range", "from", "to"} {
		if v.Get(name) != "" {
			return
		}
	}
	const most = 7 * 24 * time.Hour
	end := v.Now
	if !ended.IsZero() {
		end = ended
	}
	margin := min(max(10*time.Minute, window, end.Sub(start)/4), 24*time.Hour)
	v.Range, v.From, v.To = "incident", start.Add(-margin), v.Now
	if !ended.IsZero() && end.Add(margin).Before(v.Now) {
		v.Range, v.To = "", end.Add(margin)
	}
	if v.To.Sub(v.From) > most {
		v.From = v.To.Add(-most)
	}
}

func (s incidentPage) serveIncident(w http.ResponseWriter, r *http.Request, p *page, x *incident) {
	sections := []section{{id: "now", template: "incident-now", load: func(ctx context.Context) (any, error) { return s.now(ctx, x) }}}
	if !x.noCalls() {
		sections = append(sections, s.callSections(x)...)
	}
	s.serve(w, r, p, append(sections, s.moreSection(x))...)
}

// noCalls reports whether the page is about an alert that is not about calls.
func (x *incident) noCalls() bool { return x.alert != nil && x.alert.Calls == 0 && x.alert.Failed == 0 }

// callSections are the sections about the calls of x.
func (s incidentPage) callSections(x *incident) []section {
	return []section{
		{id: "timeline", template: "incident-timeline", title: x.Hit() + " over time", load: func(ctx context.Context) (any, error) { return s.timeline(ctx, x) }},
		{id: "change", template: "incident-change", title: "Whose change?", load: func(ctx context.Context) (any, error) { return s.change(ctx, x) }},
		{id: "differs", template: "incident-differs", title: "What differs?", load: func(ctx context.Context) (any, error) { return s.differs(ctx, x) }},
		{id: "proof", template: "incident-proof", title: "Proof", load: func(ctx context.Context) (any, error) { return s.examples(ctx, x) }},
		{id: "hit", template: "incident-hit", title: "Who is hit?", load: func(ctx context.Context) (any, error) { return s.conversations(ctx, x) }},
	}
}

func (s incidentPage) moreSection(x *incident) section {
	return section{id: "more", template: "incident-more", title: "Investigate", load: func(ctx context.Context) (any, error) { return s.investigate(ctx, x) }}
}

// Hit names the calls that the page is about.
func (x *incident) Hit() string {
	switch m := x.measured; {
	case m == nil:
	case m.hits():
		return "Calls that " + m.words()
	case x.problem.Direction == "low":
		return "Calls before it"
	default:
		return "Calls since then"
	}
	switch {
	case x.ofCache():
		return "Calls that missed the prompt cache for this reason"
	case len(x.Rules) > 0:
		return "Calls with this finding"
	}
	return "Failing calls"
}

// ofCache reports whether the page is about calls that did not read the provider's prompt cache for a reason.
func (x *incident) ofCache() bool { return len(x.Rules) == 1 && promptcache.Known(x.Rules[0]) }

// with returns the values of statements about x, with further ones as names and values.
func (x *incident) with(pairs ...string) queries.Values {
	out := maps.Clone(x.values)
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = []string{pairs[i+1]}
	}
	return out
}

// hits returns the values of statements about the calls that x is about.
func (x *incident) hits(pairs ...string) queries.Values {
	switch m := x.measured; {
	case m == nil:
	case m.hits():
		return x.with(append(pairs, "measure", m.name, "above", strconv.FormatFloat(m.above, 'f', -1, 64))...)
	case x.problem.Direction == "low": // what is missing
		return x.with(append(pairs, "hits_since", x.view.From.Format(time.RFC3339Nano), "hits_until", m.since.Format(time.RFC3339Nano))...)
	default:
		return x.with(append(pairs, "hits_since", m.since.Format(time.RFC3339Nano))...)
	}
	return x.with(append(pairs, "why", x.Why, "rules", strings.Join(x.Rules, ","))...)
}

// hitsNow is hits without calls of before a measure became unusual, some of which always have as much.
func (x *incident) hitsNow() queries.Values {
	out := x.hits()
	if m := x.measured; m != nil && m.since.After(x.view.From) {
		out["since"] = []string{m.since.Format(time.RFC3339Nano)}
	}
	return out
}

// alert returns an alert: from the state of the alerts, or else from ClickHouse.
func (s incidentPage) alert(ctx context.Context, id string, v *View) (*Incident, error) {
	if s.incidents != nil {
		if a, err := s.incidents.Incident(ctx, id); err == nil {
			return a, nil
		}
	}
	rows, err := s.query(ctx, "incident_alert", queries.Values{"id": {id}}, v.Now)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("alert %s %w", id, ErrNotFound)
	}
	r := rows[0]
	labels, _ := r["labels"].(map[string]string)
	a := &Incident{
		Alert: Alert{
			ID: id, Name: r.Text("name"), Severity: r.Text("severity"), Labels: labels, Summary: r.Text("summary"),
			FirstBad: r.Text("first_bad"), LastClean: r.Text("last_clean"), StartsAt: r.Time("started_at"), EndsAt: r.Time("ended_at"),
		},
		Stored: true, Value: r.Float("value"), Failed: uint64(r.Int64("failed")), Calls: uint64(r.Int64("calls")),
	}
	a.Subject, a.Summary, a.Problem = aboutRow(labels, a.Name), withoutSubject(labels, a.Summary), r.Text("problem")
	if by := r.Text("silenced_by"); by != "" {
		a.Silenced = &Silence{By: by}
	}
	shares, _ := r["shares"].(map[string]uint64)
	for why, n := range shares {
		a.Causes = append(a.Causes, CauseCount{ID: why, Text: s.meaning(why), N: n})
	}
	slices.SortFunc(a.Causes, func(a, b CauseCount) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.ID, b.ID)) })
	if len(a.Causes) > 0 {
		a.Cause, a.Why = a.Causes[0].ID, a.Causes[0].Text
		a.Kind, _, a.Fix = s.explain(a.Cause)
	}
	return a, nil
}

// aboutRow names what the row of an alert is about.
func aboutRow(labels map[string]string, rule string) string {
	if labels["service"]+labels["stage"] == "" {
		return cmp.Or(labels["provider"], rule)
	}
	return subject(labels["service"], labels["stage"])
}

// withoutSubject returns the summary of the row of an alert without the subject, with which summaries begin.
func withoutSubject(labels map[string]string, summary string) string {
	return strings.TrimPrefix(summary, labels["service"]+"/"+labels["stage"]+": ")
}

func (s incidentPage) explain(id string) (kind, phrase, fix string) {
	if s.incidents == nil || id == "" {
		return "", "", ""
	}
	return s.incidents.Meaning(id)
}

// meaning returns a cause in words.
func (s incidentPage) meaning(id string) string {
	_, phrase, _ := s.explain(id)
	return cmp.Or(phrase, strings.ReplaceAll(id, "_", " "))
}

// incidentNow is the answer to "what is it, since when, and is it over?".
type incidentNow struct {
	Alert                    *Incident // nil if the page is not about an alert
	Class                    string    // of the verdict
	Subject, Why, Cause, Fix string
	Kind                     string // of Cause
	callCounts
	Causes []Link // this incident for one cause of the alert
	Whole  string // URL of this page for the time of the alert; empty if it is shown
}

// callCounts are the numbers of calls that an incident hits in the time shown.
type callCounts struct {
	From              string // in words: the time that is counted
	What              string // happened to the calls
	Hit, Calls, Since int64
	Guessed           int64 // of Hit, calls of which the cause is a guess
	First, Last       Time
	Trend             string // whether it is over, in words
	Missing           string // why numbers are missing
	HitURL, CallsURL  string // lists of these calls; the first is empty if no filter selects them
}

// whole returns the URL of this page without a time range; empty if the URL has none.
func (v *View) whole() string {
	if v.Get("range")+v.Get("from")+v.Get("to") == "" {
		return ""
	}
	return v.Here("range", "", "from", "", "to", "")
}

// counts counts the calls of x. If they are not known, it returns the error, too.
func (s incidentPage) counts(ctx context.Context, x *incident) (callCounts, error) {
	v := x.view
	out := callCounts{What: "failed for this reason", From: "In the time shown", HitURL: x.hitURL(), CallsURL: v.Calls(x.scope()...)}
	switch {
	case x.measured != nil && !x.measured.hits():
		return out, nil
	case x.measured != nil:
		out.What, out.From = x.measured.words(), "Since "+v.At(x.measured.since).Absolute()
	case x.ofCache():
		out.What = "missed the prompt cache for this reason"
	case len(x.Rules) > 0:
		out.What = "have this finding"
	case x.Why == "":
		out.What = "failed"
	}
	rows, err := s.query(ctx, "incident_totals", x.hitsNow(), v.Now)
	if err != nil {
		out.Missing = err.Error()
		return out, err
	}
	if len(rows) == 0 || rows[0].Int64("hits") == 0 {
		return out, nil
	}
	r := rows[0]
	out.Hit, out.Calls, out.Since, out.Guessed = r.Int64("hits"), r.Int64("calls"), r.Int64("calls_since"), r.Int64("guessed")
	out.First, out.Last = v.At(r.Time("first_hit")), v.At(r.Time("last_hit"))
	if v.Live() && x.measured == nil && !x.ofCache() {
		out.Trend = trend(out.Hit, out.Calls, out.Since, v.Now.Sub(out.Last.T))
	}
	return out, nil
}

func (s incidentPage) now(ctx context.Context, x *incident) (*incidentNow, error) {
	v := x.view
	out := &incidentNow{Alert: x.alert, Class: "warning", Subject: subject(v.Get("service"), v.Get("stage")), Cause: x.Why}
	if x.Why != "" {
		out.Kind, _, out.Fix = s.explain(x.Why)
		out.Why = s.meaning(x.Why)
	}
	if a := x.alert; a != nil {
		switch {
		case !a.EndsAt.IsZero():
			out.Class = "ok"
		case severe(a.Severity):
			out.Class = "critical"
		}
		out.Whole = v.whole()
		if x.Why == a.Cause {
			out.Kind, out.Why, out.Fix = cmp.Or(a.Kind, out.Kind), cmp.Or(a.Why, out.Why), cmp.Or(a.Fix, out.Fix)
		}
		for _, c := range a.Causes {
			out.Causes = append(out.Causes, Link{fmt.Sprintf("%s (%d)", c.Text, c.N), v.Here("why", c.ID), c.ID == x.Why})
		}
		if x.noCalls() {
			return out, nil
		}
	}
	var err error
	if out.callCounts, err = s.counts(ctx, x); x.alert == nil {
		if err == nil && out.Hit == 0 {
			out.Class = "ok"
		}
		out.Why = stored.Guessed(out.Why, out.Guessed, out.Hit)
		return out, err
	}
	return out, nil
}

// trend says whether failures have ended: how many would have been expected among the calls since the last one? Fewer than three
// prove nothing.
func trend(hits, calls, since int64, quiet time.Duration) string {
	during := max(calls-since, 1)
	expected := float64(since) * float64(hits) / float64(during)
	switch {
	case since == 0 && quiet < 5*time.Minute:
		return "It goes on: the newest call failed."
	case since == 0:
		return "There were no calls since, so it may happen again."
	case expected >= 3:
		return fmt.Sprintf("It seems to be over: none of the %s since failed; about %s would have.", quantity.Plural(since, "call"), quantity.Count(expected))
	case quiet < 5*time.Minute:
		return fmt.Sprintf("It goes on: %s since the last failure, too few to tell that it has ended.", quantity.Plural(since, "call"))
	}
	return fmt.Sprintf("Too early to say whether it is over: %s since the last failure.", quantity.Plural(since, "call"))
}

// timeline returns the calls that x is about beside all others over time, with new versions and the alert.
func (s incidentPage) timeline(ctx context.Context, x *incident) (any, error) {
	v := x.view
	c := v.newChart(x.Hit()+" and other calls over time", "call")
	var began []stored.Row
	var beganErr error
	var marks sync.WaitGroup
	marks.Go(func() { began, beganErr = s.query(ctx, "versions_began", x.values, v.Now) })
	rows, err := s.query(ctx, "incident_over_time", x.hits("step", strconv.Itoa(int(c.Step.Seconds()))), v.Now)
	marks.Wait()
	if err != nil {
		if !down(err) || len(x.Rules) > 0 || !s.timelineByTallies(ctx, x, c) {
			return nil, err
		}
		return map[string]any{"Chart": c, "Tallies": downText(err)}, nil
	}
	hits := ChartSeries{Name: x.Hit(), Class: "c1", Values: make([]float64, len(c.Starts))}
	others := ChartSeries{Name: "Other calls", Class: "c6", Values: make([]float64, len(c.Starts))}
	for _, r := range rows {
		if i := c.bar(r.Time("time")); i >= 0 {
			hits.Values[i] += r.Float("hits")
			others.Values[i] += r.Float("others")
			hits.Total += r.Float("hits")
			others.Total += r.Float("others")
		}
	}
	omitted := c.add(hits, others)
	if beganErr == nil { // marks are a help only
		for _, r := range began {
			c.Marks = append(c.Marks, Mark{r.Time("began"), r.Text("new_version")})
		}
	}
	for _, m := range x.marks {
		if !m.At.IsZero() {
			c.Marks = append(c.Marks, m)
		}
	}
	slices.SortStableFunc(c.Marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	return map[string]any{"Chart": c, "Omitted": omitted}, nil
}

// add adds two series, the first at the bottom. If it would be invisible below the second, the second is omitted, and add returns
// its total.
func (c *Chart) add(hits, others ChartSeries) (omitted int64) {
	if hits.Total > 0 && hits.Total < others.Total/50 {
		c.Series = []ChartSeries{hits}
		return int64(others.Total)
	}
	c.Series = []ChartSeries{hits, others}
	return 0
}

// timelineByTallies fills c from the tallies and reports whether they answered.
func (s incidentPage) timelineByTallies(ctx context.Context, x *incident, c *Chart) bool {
	var list [2]ChartSeries
	for i, metric := range []string{"llmtap_failed_calls_total", "llmtap_calls_total"} {
		list[i] = ChartSeries{Name: []string{x.Hit(), "Other calls"}[i], Class: []string{"c1", "c6"}[i], Values: make([]float64, len(c.Starts))}
		expr := fmt.Sprintf("sum(increase(%s%s[%ds]))", metric, selector(x.values), int(c.Step.Seconds()))
		series, err := s.tallies.read(ctx, expr, c.Starts[0].Add(c.Step), c.Starts[len(c.Starts)-1].Add(c.Step), c.Step)
		if err != nil {
			return false
		}
		for _, one := range series {
			for _, p := range one.Points {
				if j := c.bar(p.At.Add(-c.Step)); j >= 0 {
					list[i].Values[j] += p.Value
				}
			}
		}
	}
	for j := range c.Starts {
		list[1].Values[j] = max(0, list[1].Values[j]-list[0].Values[j])
		list[0].Total += list[0].Values[j]
		list[1].Total += list[1].Values[j]
	}
	c.add(list[0], list[1])
	return true
}

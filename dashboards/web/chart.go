package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// A Chart is a chart over time: stacked bars or lines, marks of events, and a table of its values for readers who do not see it.
type Chart struct {
	Title  string // text alternative: what the chart shows
	Unit   string // noun of a value, in the singular: "failed call"; of lines: that of the axis, "seconds"
	View   *View
	Starts []time.Time // start of each bar
	Step   time.Duration
	Series []ChartSeries // from the bottom to the top
	Marks  []Mark
	Spans  []Span // in which an alert fires; they may overlap

	Levels    bool    // values are levels: they are not counted, and Series exclude one another
	Threshold float64 // of levels

	Lines bool                   // series are lines, which have gaps at NaN
	Bands []Band                 // of lines: what is usual, one per bar; nil if it is not known
	Text  func(v float64) string // of lines: a value in words
}

// A ChartSeries is one colour of a Chart.
type ChartSeries struct {
	Name   string
	Class  string    // of the style sheet; empty: the next of c1 to c8
	Values []float64 // one per bar
	Total  float64
}

// A Mark is an event in a Chart, such as a new version.
type Mark struct {
	At    time.Time
	Label string
}

// A Span is a period in a Chart.
type Span struct{ From, To time.Time }

// maxSeries is the maximum number of series of a chart; the others are added up.
const maxSeries = 6

// addSeries adds series, largest first, the smallest ones as one.
func (c *Chart) addSeries(all []ChartSeries) {
	for i := range all {
		all[i].Total = 0
		for _, v := range all[i].Values {
			all[i].Total += v
		}
	}
	slices.SortStableFunc(all, func(a, b ChartSeries) int {
		if a.Total != b.Total {
			return int(math.Copysign(1, b.Total-a.Total))
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(all) > maxSeries {
		rest := ChartSeries{Name: fmt.Sprintf("%d others", len(all)-maxSeries+1), Values: make([]float64, len(c.Starts))}
		for _, s := range all[maxSeries-1:] {
			for i, v := range s.Values {
				rest.Values[i] += v
			}
			rest.Total += s.Total
		}
		all = append(all[:maxSeries-1], rest)
	}
	for i := range all {
		if all[i].Class == "" {
			all[i].Class = fmt.Sprintf("c%d", i+1)
		}
	}
	c.Series = append(c.Series, all...)
}

// Sizes returns the drawings for a wide and for a narrow screen, because text in an SVG grows with it.
func (c *Chart) Sizes() []Drawing {
	return []Drawing{c.draw("wide", 960, 190), c.draw("narrow", 360, 170)}
}

// Small returns the drawing of a chart beside others, on a screen of any width.
func (c *Chart) Small() Drawing { return c.draw("small", 360, 150) }

// A Drawing is a chart for one width, in pixels.
type Drawing struct {
	Class         string
	Width, Height int
	Top, Bottom   int // of the plot
	Bars          []Bar
	Lines         []Tick // of the vertical axis
	Ticks         []Tick // of the horizontal axis
	Marks         []Tick
	Spans         []Box
	Threshold     *Tick  // nil: none
	Usual         string // outline of the bands, as of a path
	Paths         []Path // of lines
}

// A Path is a line.
type Path struct{ Class, D string }

// A Bar is all series at one time. Its URL shows that time alone.
type Bar struct {
	X, W  float64
	Label string
	URL   string
	Empty bool // there is nothing to say of it
	Parts []BarPart
}

// A BarPart is one series of a Bar.
type BarPart struct {
	Class string
	Y, H  float64
}

// A Box is a period of the horizontal axis.
type Box struct{ X, W, H float64 }

// A Tick is a labeled position of an axis.
type Tick struct {
	X, Y   float64
	Label  string
	Title  string // of a mark, whose label may be cut or missing
	Anchor string // start, middle or end
}

const (
	axisWidth  = 44
	axisHeight = 18
	markHeight = 16
)

func (c *Chart) draw(class string, width, height int) Drawing {
	d := Drawing{Class: class, Width: width, Height: height, Top: 6, Bottom: height - axisHeight}
	if len(c.Marks) > 0 {
		d.Top += markHeight
	}
	top, steps := c.scale()
	plot := float64(d.Bottom - d.Top)
	y := func(v float64) float64 { return float64(d.Bottom) - v/top*plot }
	for i := range steps + 1 {
		v := top / float64(steps) * float64(i)
		label := axisNumber(v)
		if c.Levels || c.Lines && top < 1e4 {
			label = measure(v)
		}
		d.Lines = append(d.Lines, Tick{X: axisWidth, Y: y(v), Label: label, Anchor: "end"})
	}
	if c.Levels {
		d.Threshold = &Tick{X: axisWidth, Y: y(c.Threshold), Label: "threshold " + measure(c.Threshold)}
	}
	from, to := c.View.From, c.View.To
	if n := len(c.Starts); n > 0 {
		if c.Starts[0].Before(from) {
			from = c.Starts[0]
		}
		if end := c.Starts[n-1].Add(c.Step); end.After(to) {
			to = end
		}
	}
	span := to.Sub(from).Seconds()
	x := func(t time.Time) float64 {
		return axisWidth + t.Sub(from).Seconds()/span*float64(width-axisWidth-2)
	}
	for i, at := range c.Starts {
		b := Bar{X: x(at), W: max(1, x(at.Add(c.Step))-x(at)-1), URL: c.View.Span(at, at.Add(c.Step)), Label: c.label(i), Empty: c.empty(i)}
		base := 0.0
		for _, s := range c.Series {
			if v := s.Values[i]; v > 0 && !c.Lines {
				b.Parts = append(b.Parts, BarPart{s.Class, y(base + v), v / top * plot})
				base += v
			}
		}
		d.Bars = append(d.Bars, b)
	}
	if c.Lines {
		c.drawLines(&d, func(i int) float64 { return x(c.Starts[i]) }, x(c.Starts[len(c.Starts)-1].Add(c.Step)), func(v float64) float64 { return y(min(v, top)) })
	}
	ticks := 6
	if class != "wide" {
		ticks = 3
	}
	for _, at := range timeTicks(from, to, c.View.Zone, ticks) {
		d.Ticks = append(d.Ticks, Tick{X: x(at), Y: float64(height - 4), Label: at.In(c.View.Zone).Format(tickLayout(to.Sub(from))), Anchor: anchor(x(at), width)})
	}
	for _, s := range c.Spans {
		if s.From.Before(from) {
			s.From = from
		}
		if s.To.After(to) {
			s.To = to
		}
		if s.From.Before(s.To) {
			d.Spans = append(d.Spans, Box{x(s.From), max(1, x(s.To)-x(s.From)), plot})
		}
	}
	free, labelled, more := 0.0, -1, 0 // end of the previous label, its index, and the marks beside it that have none
	for _, m := range c.Marks {
		if m.At.Before(from) || m.At.After(to) {
			continue
		}
		t := Tick{X: x(m.At), Y: 12, Label: short(28, m.Label), Title: m.Label}
		left, end := t.place(width)
		if left < free && labelled >= 0 {
			t.Label = ""
			more++
			first := &d.Marks[labelled]
			name, _, _ := strings.Cut(first.Label, " +")
			first.Label = fmt.Sprintf("%s +%d", name, more)
			_, free = first.place(width)
		} else {
			free, labelled, more = end, len(d.Marks), 0
		}
		d.Marks = append(d.Marks, t)
	}
	return d
}

// place sets the anchor of the label, so that it is within the drawing, and returns its begin and its end.
func (t *Tick) place(width int) (left, right float64) {
	size := float64(7 * len([]rune(t.Label))) // of a wide font
	left = t.X - size/2
	switch t.Anchor = "middle"; {
	case left < 0:
		t.Anchor, left = "start", t.X
	case left+size > float64(width):
		t.Anchor, left = "end", t.X-size
	}
	return left, left + size
}

func anchor(x float64, width int) string {
	switch {
	case x < axisWidth+40:
		return "start"
	case x > float64(width)-40:
		return "end"
	}
	return "middle"
}

func (c *Chart) sum(i int) (total float64) {
	for _, s := range c.Series {
		total += s.Values[i]
	}
	return total
}

// label describes a bar in words.
func (c *Chart) label(i int) string {
	if c.Lines {
		return c.lineLabel(i)
	}
	if c.Levels {
		text := c.View.At(c.Starts[i]).Absolute() + ": " + measure(c.sum(i))
		for _, s := range c.Series {
			if s.Values[i] != 0 {
				return text + ", " + s.Name
			}
		}
		return text
	}
	text := c.View.At(c.Starts[i]).Absolute() + ": " + quantity.Plural(c.sum(i), c.Unit)
	var parts []string
	for _, s := range c.Series {
		if v := s.Values[i]; v > 0 && len(c.Series) > 1 {
			parts = append(parts, fmt.Sprintf("%s %s", s.Name, quantity.Count(v)))
		}
	}
	if len(parts) > 0 {
		text += ", " + strings.Join(parts, ", ")
	}
	return text
}

// ChartRows returns the values of the chart as a table: the bars that are not empty.
func (c *Chart) ChartRows() [][]string {
	var out [][]string
	for i, at := range c.Starts {
		if c.empty(i) {
			continue
		}
		r := []string{c.View.At(at).Absolute()}
		for _, s := range c.Series {
			switch {
			case c.Lines:
				r = append(r, c.value(s.Values[i]))
			case c.Levels:
				r = append(r, measure(s.Values[i]))
			default:
				r = append(r, quantity.Count(s.Values[i]))
			}
		}
		if c.Bands != nil {
			r = append(r, c.band(i))
		}
		out = append(out, r)
	}
	return out
}

// niceScale returns the end of an axis that begins at 0, and its number of steps.
func niceScale(highest float64) (top float64, steps int) {
	if highest <= 0 {
		return 1, 1
	}
	if highest <= 3 {
		return math.Ceil(highest), int(math.Ceil(highest))
	}
	unit := math.Pow(10, math.Floor(math.Log10(highest/3)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if n := math.Ceil(highest / (m * unit)); n <= 4 && m*unit*n == math.Trunc(m*unit*n) {
			return m * unit * n, int(n)
		}
	}
	return unit * 40, 4
}

// niceMeasure is niceScale for values that are no counts.
func niceMeasure(highest float64) (top float64, steps int) {
	if highest <= 0 {
		return 1, 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(highest/3)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if n := math.Ceil(highest / (m * unit)); n <= 4 {
			return m * unit * n, int(n)
		}
	}
	return unit * 10 * math.Ceil(highest/(10*unit)), int(math.Ceil(highest / (10 * unit)))
}

// niceFraction is niceScale for values up to 1.
func niceFraction(highest float64) (top float64, steps int) {
	for _, top := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5} {
		if highest <= top {
			return top, 2
		}
	}
	return 1, 2
}

func axisNumber(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return quantity.Count(v)
}

var tickSteps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
}

// timeTicks returns at most n times at full minutes, hours or days of the zone.
func timeTicks(from, to time.Time, zone *time.Location, n int) []time.Time {
	step := tickSteps[len(tickSteps)-1]
	if i := slices.IndexFunc(tickSteps, func(d time.Duration) bool { return to.Sub(from) <= d*time.Duration(n) }); i >= 0 {
		step = tickSteps[i]
	}
	_, offset := from.In(zone).Zone()
	shift := time.Duration(offset) * time.Second
	var out []time.Time
	for t := from.Add(shift).Truncate(step).Add(-shift); !t.After(to) && len(out) <= 4*n; t = t.Add(step) {
		if !t.Before(from) {
			out = append(out, t)
		}
	}
	return out
}

func tickLayout(span time.Duration) string {
	if span > 36*time.Hour {
		return "Jan 2 15:04"
	}
	return "15:04"
}

package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// scale returns the end of the vertical axis, which begins at 0, and its number of steps.
func (c *Chart) scale() (top float64, steps int) {
	highest := c.Threshold
	for i := range c.Starts {
		if !c.Lines {
			highest = max(highest, c.sum(i))
			continue
		}
		for _, s := range c.Series {
			if v := s.Values[i]; v > highest { // not NaN
				highest = v
			}
		}
	}
	if c.Lines {
		return niceMeasure(c.withBands(highest))
	}
	if top, steps = niceScale(highest); c.Levels && top <= 1 {
		return niceFraction(highest)
	}
	return top, steps
}

// withBands returns the highest value to draw: the bands do not make the lines lower than a third of the chart.
func (c *Chart) withBands(highest float64) float64 {
	usual := 0.0
	for _, b := range c.Bands {
		usual = max(usual, b.High)
	}
	if highest == 0 {
		return usual
	}
	return max(highest, min(usual, 3*highest))
}

// drawLines adds the lines and the bands to d. left is where a bar begins, and end where the last one ends.
func (c *Chart) drawLines(d *Drawing, left func(i int) float64, end float64, y func(v float64) float64) {
	right := func(i int) float64 {
		if i+1 < len(c.Starts) {
			return left(i + 1)
		}
		return end
	}
	for _, s := range c.Series {
		var b strings.Builder
		for i, v := range s.Values {
			if math.IsNaN(v) {
				continue
			}
			begins, ends := i == 0 || math.IsNaN(s.Values[i-1]), i+1 == len(s.Values) || math.IsNaN(s.Values[i+1])
			switch at := (left(i) + right(i)) / 2; {
			case begins && ends: // a point would hardly be seen
				fmt.Fprintf(&b, "M%.1f %.1fH%.1f", left(i), y(v), right(i))
			case begins:
				fmt.Fprintf(&b, "M%.1f %.1f", at, y(v))
			default:
				fmt.Fprintf(&b, "L%.1f %.1f", at, y(v))
			}
		}
		d.Paths = append(d.Paths, Path{s.Class, b.String()})
	}
	var b strings.Builder
	for i := 0; i < len(c.Bands); i++ {
		if c.Bands[i].High == 0 {
			continue
		}
		from := i
		command := "M"
		for ; i < len(c.Bands) && c.Bands[i].High > 0; i++ {
			fmt.Fprintf(&b, "%s%.1f %.1fH%.1f", command, left(i), y(c.Bands[i].High), right(i))
			command = "L"
		}
		for j := i - 1; j >= from; j-- {
			fmt.Fprintf(&b, "L%.1f %.1fH%.1f", right(j), y(c.Bands[j].Low), left(j))
		}
		b.WriteString("Z")
	}
	d.Usual = b.String()
}

// empty reports whether there is nothing to say of a bar.
func (c *Chart) empty(i int) bool {
	if !c.Lines {
		return c.sum(i) == 0
	}
	return !slices.ContainsFunc(c.Series, func(s ChartSeries) bool { return !math.IsNaN(s.Values[i]) })
}

// value returns a value of a line in words.
func (c *Chart) value(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return c.Text(v)
}

// band returns what is usual of a bar in words.
func (c *Chart) band(i int) string {
	if c.Bands == nil || c.Bands[i].High == 0 {
		return "–"
	}
	return c.Text(c.Bands[i].Low) + " to " + c.Text(c.Bands[i].High)
}

// lineLabel describes the values of a bar in words.
func (c *Chart) lineLabel(i int) string {
	parts := []string{c.View.At(c.Starts[i]).Absolute() + ": " + c.Title + " " + c.value(c.Series[0].Values[i])}
	for _, s := range c.Series[1:] {
		parts = append(parts, s.Name+" "+c.value(s.Values[i]))
	}
	if c.Bands != nil && c.Bands[i].High > 0 {
		parts = append(parts, "usual "+c.band(i))
	}
	return strings.Join(parts, ", ")
}

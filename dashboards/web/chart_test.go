package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The label of a mark is inside of the drawing, wherever the mark is, and does not cover the label before it.
func TestMarkLabels(t *testing.T) {
	const name = "2.4.0-rc.1+build.20261123"
	v := &View{From: testNow.Add(-time.Hour), To: testNow, Now: testNow, Zone: time.UTC}
	for at := range 61 {
		c := &Chart{View: v, Starts: []time.Time{v.From}, Step: time.Hour, Marks: []Mark{{v.From.Add(time.Duration(at) * time.Minute), name}}}
		for _, d := range c.Sizes() {
			m, size := d.Marks[0], float64(7*len(name))
			left := map[string]float64{"start": m.X, "middle": m.X - size/2, "end": m.X - size}[m.Anchor]
			if m.Label != name || left < 0 || left+size > float64(d.Width) {
				t.Errorf("%s, minute %d: %q from %.0f to %.0f of %d pixels", d.Class, at, m.Label, left, left+size, d.Width)
			}
		}
	}
	c := &Chart{View: v, Starts: []time.Time{v.From}, Step: time.Hour, Marks: []Mark{{testNow.Add(-2 * time.Minute), name}, {testNow.Add(-time.Minute), name}}}
	if d := c.Sizes()[0]; d.Marks[0].Label != name+" +1" || d.Marks[1].Label != "" || d.Marks[1].Title != name {
		t.Errorf("two marks at one place: %+v", d.Marks)
	}
}

// The end of a silence is in the zone of the viewer.
func TestSilencedUntil(t *testing.T) {
	_, body := get(newTest(t, fakeSource{}, ""), "/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: zoneCookie, Value: "Asia%2FTokyo"}) })
	must.Contain(t, body, ">19:30:00</time>, in 1 h")
}

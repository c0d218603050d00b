package wording

import (
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Hidden returns the lines about the alerts that an alert hides, the worst first.
func (m *Markup) Hidden(h *alerts.Hidden) []string {
	if h == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("Hides %s:", quantity.Plural(h.Alerts, "alert"))}
	for _, p := range h.Worst {
		part := alerts.Alert{Name: p.Name, Labels: p.Labels}
		line := fmt.Sprintf("%s: %s of %s calls failed", m.Plain(ShortSubject(part), maxHeadline), quantity.Count(p.Failed), quantity.Count(p.Calls))
		if p.Failed == 0 {
			line = m.Plain(ShortSubject(part), maxHeadline)
		}
		lines = append(lines, fmt.Sprintf("• %s (%s, %s)", line, m.Plain(p.Name, maxName), m.Plain(part.Severity(), maxSeverity)))
	}
	if n := h.Alerts - len(h.Worst); n > 0 {
		lines = append(lines, fmt.Sprintf("• … and %d more", n))
	}
	return lines
}

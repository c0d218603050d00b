package slack

import (
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// hiddenParts returns the lines about the alerts that an alert hides, the worst first.
func hiddenParts(h *alerts.Hidden) []string {
	if h == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("Hides %s:", quantity.Plural(h.Alerts, "alert"))}
	for _, p := range h.Worst {
		part := alerts.Alert{Name: p.Name, Labels: p.Labels}
		line := fmt.Sprintf("%s: %s of %s calls failed", plain(wording.ShortSubject(part), maxHeader), quantity.Count(p.Failed), quantity.Count(p.Calls))
		if p.Failed == 0 {
			line = plain(wording.ShortSubject(part), maxHeader)
		}
		lines = append(lines, fmt.Sprintf("• %s (%s, %s)", line, plain(p.Name, maxName), plain(part.Severity(), maxSeverity)))
	}
	if n := h.Alerts - len(h.Worst); n > 0 {
		lines = append(lines, fmt.Sprintf("• … and %d more", n))
	}
	return lines
}

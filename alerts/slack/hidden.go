package slack

import (
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
)

// hiddenParts returns the lines about the alerts that an alert hides, the worst first.
func hiddenParts(h *alerts.Hidden) []string {
	if h == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("Hides %s:", count(h.Alerts, "alert"))}
	for _, p := range h.Worst {
		part := alerts.Alert{Name: p.Name, Labels: p.Labels}
		line := fmt.Sprintf("%s: %s of %s calls failed", plain(subject(part), maxHeader), wording.Number(p.Failed), wording.Number(p.Calls))
		if p.Failed == 0 {
			line = plain(subject(part), maxHeader)
		}
		lines = append(lines, fmt.Sprintf("• %s (%s, %s)", line, plain(p.Name, maxName), plain(part.Severity(), maxSeverity)))
	}
	if n := h.Alerts - len(h.Worst); n > 0 {
		lines = append(lines, fmt.Sprintf("• … and %d more", n))
	}
	return lines
}

// count returns n with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return wording.Number(uint64(n)) + " " + noun
}

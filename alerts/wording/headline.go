package wording

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/alerts"
)

// Main returns the index of the alert that a group's headline is about: the first firing one of the highest rank, or
// else the one of the highest rank that ended last.
func Main(current []alerts.Alert) int {
	first := 0
	for i, a := range current {
		main := current[first]
		firing, was := a.State == alerts.Firing, main.State == alerts.Firing
		if firing && !was || firing == was && (a.Rank() > main.Rank() || a.Rank() == main.Rank() && a.EndsAt.After(main.EndsAt)) {
			first = i
		}
	}
	return first
}

// Whole returns the main alert of g. If all alerts are about one problem, it has the times of the problem.
func Whole(g alerts.Group, current []alerts.Alert) alerts.Alert {
	a := current[Main(current)]
	if a.Problem == "" {
		return a
	}
	a.StartsAt = g.Since()
	for _, other := range current {
		if a.State == alerts.Resolved && other.EndsAt.After(a.EndsAt) {
			a.EndsAt = other.EndsAt
		}
		ev, of := &a.Evidence, &other.Evidence
		if of.LastFailed.After(ev.LastFailed) && len(of.Rules) == 0 && len(ev.Rules) == 0 {
			ev.LastFailed, ev.CallsSince, ev.Quiet = of.LastFailed, of.CallsSince, of.Quiet
		}
	}
	return a
}

// GroupHeadline returns the headline of the main alert and the number of other firing alerts.
func GroupHeadline(g alerts.Group, current []alerts.Alert) string {
	if len(current) == 0 {
		return OneLine(g.Key, maxHeadline)
	}
	firing := 0
	for _, a := range current {
		if a.State == alerts.Firing {
			firing++
		}
	}
	a := current[Main(current)]
	s := Icon(a) + " " + Headline(a)
	if n := firing - 1; n > 0 && a.Problem == "" { // else they are about the same
		s = fmt.Sprintf("%s, and %d more", Truncate(s, maxHeadline-20), n)
	}
	return s
}

// Other returns the line about an alert that is not the main one of its group.
func Other(a alerts.Alert) string {
	name := a.Labels["stage"]
	if a.Problem != "" {
		name = a.Name
	}
	if name == "" {
		name = ShortSubject(a)
	}
	return OneLine(name, 40) + ": " + Counts(&a)
}

// EndedIcon is the icon of an alert that ended while others about its problem fire.
const EndedIcon = ":white_circle:"

// Icon returns the icon of the state of a.
func Icon(a alerts.Alert) string {
	if a.State == alerts.Resolved {
		return ":large_green_circle:"
	}
	return SeverityIcon(a.Severity())
}

// SeverityIcon returns the icon of a firing alert.
func SeverityIcon(severity string) string {
	rank := func(severity string) int {
		a := alerts.Alert{Labels: map[string]string{"severity": severity}}
		return a.Rank()
	}
	switch {
	case rank(severity) == rank("critical"):
		return ":red_circle:"
	case rank(severity) > rank("info"):
		return ":large_orange_circle:"
	}
	return ":large_blue_circle:"
}

// Headline returns the sentence about a that everyone reads. It is not escaped.
func Headline(a alerts.Alert) string {
	word := severityWord(a)
	if a.State == alerts.Resolved {
		word = "RESOLVED"
	}
	text := Counts(&a)
	if service := a.Labels["service"]; service == "" || !strings.Contains(text, service) { // a summary may contain it
		text = ShortSubject(a) + ": " + text
	}
	return OneLine(word+" "+text, maxHeadline)
}

// severityWord returns the word of a severity in capitals.
func severityWord(a alerts.Alert) string { return strings.ToUpper(OneLine(a.Severity(), maxSeverity)) }

// ShortSubject returns Alert.Subject with short names.
func ShortSubject(a alerts.Alert) string {
	kv := map[string]string{}
	for _, l := range []string{"service", "stage", "agent", "provider"} {
		kv[l] = OneLine(a.Labels[l], 40)
	}
	return Subject(&alerts.Alert{Name: OneLine(a.Name, maxName), Labels: kv})
}

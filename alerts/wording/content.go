package wording

import (
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// Quoting lists the signals whose evidence is the text of an error.
var Quoting = []string{
	signals.ErrorRuleMismatch, signals.NoResponse, signals.StreamCut, signals.StreamErrorIn200, signals.Unexplained400,
}

// Permitted returns g without texts that may quote messages, unless the configuration asks for them and the service publishes
// whole bodies. An error can repeat any part of a request in any form, so its whole text is left out; the cause and the rule say
// what it was about.
func Permitted(g alerts.Group, content bool) alerts.Group {
	g.Alerts = slices.Clone(g.Alerts)
	for i := range g.Alerts {
		ev := &g.Alerts[i].Evidence
		ev.Example = withoutText(ev.Example, content)
		ev.More = slices.Clone(ev.More)
		for j, x := range ev.More {
			ev.More[j] = withoutText(x, content)
		}
	}
	return g
}

func withoutText(x *analyzer.Example, content bool) *analyzer.Example {
	if x == nil || content && x.Full {
		return x
	}
	y := *x
	y.ErrorText = ""
	if slices.Contains(Quoting, y.Rule) {
		y.Evidence = ""
	}
	return &y
}

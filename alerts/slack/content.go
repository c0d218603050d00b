package slack

import (
	"slices"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// quoting lists the signals whose evidence is the text of an error.
var quoting = []string{
	signals.ErrorRuleMismatch, signals.NoResponse, signals.StreamCut, signals.StreamErrorIn200, signals.Unexplained400,
}

// withoutContent returns g without texts that may quote messages. An error can repeat any part of a request in any form,
// so its whole text is left out; the cause and the rule say what it was about.
func withoutContent(g alerts.Group) alerts.Group {
	g.Alerts = slices.Clone(g.Alerts)
	for i := range g.Alerts {
		ev := &g.Alerts[i].Evidence
		ev.Example = withoutText(ev.Example)
		ev.More = slices.Clone(ev.More)
		for j, x := range ev.More {
			ev.More[j] = withoutText(x)
		}
	}
	return g
}

func withoutText(x *analyzer.Example) *analyzer.Example {
	if x == nil {
		return nil
	}
	y := *x
	y.ErrorText = ""
	if slices.Contains(quoting, y.Rule) {
		y.Evidence = ""
	}
	return &y
}

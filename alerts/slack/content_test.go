package slack

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An error that quotes a message reaches Slack only if slack.content is set and the service publishes whole bodies: neither the message, nor its edits, nor its
// thread contain the quoted text.
func TestContent(t *testing.T) {
	const secret = "transfer 4000 to Ottilie"
	quote := `{"error": {"message": "invalid arguments: '` + secret + `'"}}`
	alert := func(rule string) alerts.Alert {
		a := later()
		x := &analyzer.Example{Exchange: "e1", Conversation: "c1", Status: 400, Rule: rule, Message: -1, ErrorText: quote, Evidence: "status 200, then " + quote}
		if rule == "" {
			x.Evidence = ""
		}
		a.Evidence.Example = x
		a.Evidence.More = []*analyzer.Example{{Exchange: "e2", Conversation: "c2", Status: 400, Message: -1, ErrorText: quote}}
		return a
	}
	type setting struct{ content, full bool }
	for _, set := range []setting{{false, false}, {false, true}, {true, false}, {true, true}} {
		for _, rule := range append([]string{""}, wording.Quoting...) {
			t.Run(fmt.Sprintf("%v/%s", set, rule), func(t *testing.T) {
				f, cfg := newSlack(t)
				cfg.Content = set.content
				list := must.Get(cfg.Receivers(alerts.NotifierOptions{}))(t)
				first, last := alert(rule), alert(rule)
				first.Evidence.Example.Full, last.Evidence.Example.Full = set.full, set.full
				first.Evidence.More[0].Full, last.Evidence.More[0].Full = set.full, set.full
				last.State, last.EndsAt = alerts.Resolved, last.UpdatedAt
				for _, a := range []alerts.Alert{first, last} {
					must.Do(t, list[0].Notify(t.Context(), group(a)))
				}
				all := ""
				for _, m := range append(f.top(), f.thread()...) {
					all += m.Text + m.Blocks + string(m.Metadata)
				}
				must.Equal(t, strings.Contains(all, "Ottilie"), set.content && set.full, "%+v, but:\n%s", set, all)
				must.Contain(t, all, "The provider answered 400", "the message does not say what the provider answered")
				must.Equal(t, first.Evidence.Example.ErrorText, quote, "the alert of other receivers has changed")
			})
		}
	}
}

// The evidence of a rule that reads a request does not quote it and stays.
func TestContentKeepsEvidence(t *testing.T) {
	g := group(incident())
	got, want := *wording.Permitted(g, false).Alerts[0].Evidence.Example, *g.Alerts[0].Evidence.Example
	want.ErrorText = ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

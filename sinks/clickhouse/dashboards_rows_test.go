package clickhouse_test

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// incident returns the rows of an incident that began half an hour ago: version 1.4.0 of the planner is clean, 1.5.0 saves
// responses without their tool calls, so the calls of every second conversation fail; three of their runs are reported as
// successful. Three days ago, four calls of another service failed with an unknown error text, three of them the same request.
func incident() *sinks.Batch {
	begin := time.Now().Add(-30 * time.Minute).Truncate(5 * time.Minute)
	b := sinktest.Rows(0, 40)
	findings := b.Findings
	b.Findings = nil
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		at := begin.Add(time.Duration(i) * 30 * time.Second)
		e.StartedAt, e.StoredAt = at, at.Add(time.Second)
		b.Contents[i].SeenAt, b.History[i].SeenAt = at, at
		e.Labels.Service, e.Labels.Stage, e.Labels.ServiceVersion = "trips", "planner", "1.4.0"
		e.Conversation = fmt.Sprintf("conv-%d", i)
		e.Status, e.Failed, e.Cause, e.CauseKnown, e.CauseClass, e.RootCause, e.ErrorText = 200, false, "", "", "", "", ""
		e.InputTokens, e.CachedTokens, e.OutputTokens, e.Duration = 100, 40, 10, time.Duration(i)*time.Second
		e.CacheReported, e.Cache = true, promptcache.Verdict{Reusable: 40}
		if i >= 20 {
			e.Labels.ServiceVersion = "1.5.0"
			e.CachedTokens, e.Cache = 40, promptcache.Verdict{
				Reusable: 90, Missed: 50, Reason: promptcache.MessageEdited, Element: fmt.Sprintf("messages[%d]", i), Confidence: promptcache.Certain,
			}
			e.PromptHash, e.ToolsHash, e.Tools, e.Settings = 0xabcd00, 0xfedc00, []string{"read_file", "write_file"}, map[string]string{"temperature": "0.9"}
		}
		f := findings[i]
		f.Exchange, f.Labels, f.Attrs, f.Conversation, f.FirstSeen, f.Status = e.ID, e.Labels, e.Attrs, e.Conversation, at, 200
		f.ExchangeVersion = e.Labels.ServiceVersion
		if i >= 20 && i%2 == 0 {
			e.InputTokens, e.CachedTokens, e.OutputTokens, e.CacheReported, e.Cache = 0, 0, 0, false, promptcache.Verdict{} // unknown
			e.Status, e.Failed, e.Cause, e.CauseKnown, e.RootCause, e.ErrorText = 400, true, "orphan_tool_reply", "both", "tool_calls_dropped_on_save", "bad request"
			f.Status, f.Fingerprint, f.FirstVersion, f.LastClean = 400, "aaaaaaaaaaaaaaaa", "1.5.0", "1.4.0"
			if i == 30 { // from a partition that saw it first in a later version
				f.FirstVersion, f.LastClean = "1.5.1", "1.5.0"
			}
			b.Findings = append(b.Findings, f)
			switch i {
			case 22, 24, 26:
				b.Findings = append(b.Findings, signalOf(f, signals.MaskedFailure, e.Cause))
			case 28:
				b.Findings = append(b.Findings, signalOf(f, signals.ConversationEndedOnError, e.Cause))
			case 38:
				s := signalOf(f, signals.ProviderTightened, "orphan_tool_reply after_plain_assistant")
				s.Evidence, s.Conversation, s.Labels.Conversation = "accepted until 09:30", "", "" // it is about the conversations of all services
				b.Findings = append(b.Findings, s)
			}
		}
		if i < 3 { // accepted, but only by this provider
			f.Rule, f.Fingerprint, f.Severity, f.RootCause = "tool_content_not_string", "bbbbbbbbbbbbbbbb", check.Lenient, ""
			f.FirstVersion, f.LastClean = "1.2.0", "" // weeks ago
			s := signalOf(f, signals.LatentViolation, f.Rule)
			s.RejectedBy = []string{"openai_chat/deepseek", "openai_chat/openai"}
			b.Findings = append(b.Findings, f, s)
		}
	}
	b.Exchanges[39].Retry, b.Exchanges[39].Conversation = 1, "conv-38"
	for i := range 4 { // the second one is retried by the SDK and then by the agent
		e := b.Exchanges[min(i, 1)]
		e.Retry = [4]int{0, 0, 1, 0}[i]
		e.ID, e.StartedAt, e.Labels.Service = fmt.Sprintf("unknown-%d", i), begin.AddDate(0, 0, -3).Add(time.Duration(i)*time.Second), "quotes"
		e.Conversation = fmt.Sprintf("quote-%d", min(i, 1))
		e.Status, e.Failed, e.Cause, e.CauseKnown, e.ErrorText, e.ErrorCluster = 400, true, "unexplained", "none", fmt.Sprintf("no %d", i), "no N"
		e.CacheReported, e.Cache = false, promptcache.Verdict{}
		b.Exchanges = append(b.Exchanges, e)
	}
	for i := range b.ToolCalls {
		c := &b.ToolCalls[i]
		c.Labels, c.Attrs, c.AskedAt = b.Exchanges[i].Labels, b.Exchanges[i].Attrs, b.Exchanges[i].StoredAt
		switch i % 4 {
		case 0:
			c.State, c.AnsweredAt = session.Answered, c.AskedAt.Add(2*time.Second)
		case 1: // the agent reports the start and end of the tool
			c.State, c.AnsweredAt = session.Answered, c.AskedAt.Add(10*time.Second)
			c.StartedAt, c.EndedAt, c.ToolStatus = c.AskedAt.Add(time.Second), c.AskedAt.Add(5*time.Second), "ok"
		case 2:
			c.State = session.Missing
		}
	}
	b.ToolCalls[1].ToolStatus, b.ToolCalls[1].ReplyError = "error", "likely" // one error
	b.ToolCalls[4].ReplyError = "certain"
	b.Alerts = b.Alerts[:1]
	b.Alerts[0].StartedAt = begin.Add(10 * time.Minute)
	b.Actions = b.Actions[:1]
	b.Actions[0].At = begin.Add(11 * time.Minute)
	return b
}

// signalOf returns a signal about the exchange of f.
func signalOf(f analyzer.Finding, id, detail string) analyzer.Finding {
	f.ID, f.Fingerprint = f.ID[:16]+"signal"+id, id
	f.Rule, f.Detail, f.Predicted, f.Severity, f.RootCause, f.Summary = id, detail, check.Signal, check.Signal, "", id
	return f
}

// Package sample makes rows of every table, for tests and for the verification of a server.
package sample

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks"
)

// Rows returns n rows of every table, numbered from first, with realistic sizes. Row 0 is at start, and each next row 250 ms
// later. Every tenth call fails, as in an incident. The same arguments always produce the same rows.
func Rows(start time.Time, first, n int) *sinks.Batch {
	b := &sinks.Batch{}
	for i := first; i < first+n; i++ {
		at := start.Add(time.Duration(i) * 250 * time.Millisecond)
		labels := event.Labels{
			Service: "planner-api", ServiceVersion: fmt.Sprintf("1.4.%d", i%4), Environment: "production", Agent: "trip-planner",
			Stage: [...]string{"planner", "executor", "summariser"}[i%3], Conversation: fmt.Sprintf("conv-%06d", i/12),
			Run: fmt.Sprintf("run-%05d", i/24), User: fmt.Sprintf("%016x", i/100*2654435761),
		}
		e := analyzer.Exchange{
			ID: fmt.Sprintf("019aa0b0-%04x-7%03x-8000-%012x", i>>16, i&0xfff, i), Seq: uint64(2 * i), Labels: labels,
			Attrs: map[string]string{"tenant": fmt.Sprintf("tenant-%d", i%7), "region": "eu"}, SDK: "python/0.1.0", Code: fmt.Sprintf("core/agent.py:%d Agent.run", 140+i%3),
			StartedAt: at, StoredAt: at.Add(900 * time.Millisecond), Conversation: labels.Conversation, Operation: "chat",
			Provider: "deepseek", Server: "api.deepseek.com", Path: "/chat/completions", Dialect: "openai_chat", Variant: "deepseek",
			Model: "deepseek-chat", ResponseModel: "deepseek-chat", Status: 200, InputTokens: int64(1800 + i%700), OutputTokens: int64(40 + i%90),
			CachedTokens: int64(64 * (i % 20)), Duration: time.Duration(600+i%900) * time.Millisecond, FirstByte: time.Duration(150+i%80) * time.Millisecond,
			FinishReason: "tool_calls", Stream: i%2 == 0, RequestBytes: 21_000 + i%9000, ResponseBytes: 900 + i%300, Messages: 2 + i%30, ToolCalls: 1,
			Instance: fmt.Sprintf("%012x", 7919*(i%5+1)), InstanceSeq: uint64(i), Origin: event.OriginHook, Capture: event.CaptureShape,
			ProviderRequestID: fmt.Sprintf("req_%020d", i), ResponseID: fmt.Sprintf("chatcmpl-%020d", i),
			Trace: fmt.Sprintf("%032x", 7919*(i/24+1)), Span: fmt.Sprintf("%016x", 7919*(i/12+1)),
			PromptHash: 0xabcdef, ToolsHash: 0xfedcba, Tools: []string{"read_file", "search"}, Settings: map[string]string{"temperature": "0.2"},
			Branch: fmt.Sprintf("019aa0b0-0000-7000-8000-%012x", i/12*12), Lead: []string{fmt.Sprintf("%032x", 1<<40)},
			Marked: map[uint32]string{uint32(i % 12): fmt.Sprintf("%032x", i)}, Parameters: fmt.Sprintf("%032x", 1<<41), MessagesAt: 12,
			Answer: fmt.Sprintf("%032x", i|1<<42), CacheReported: true, CacheWritten: int64(64 * (i % 5)), CacheHour: int64(64 * (i % 2)),
		}
		if e.Cache.Reusable = e.CachedTokens; i%4 == 1 {
			e.Cache = promptcache.Verdict{
				Reusable: e.CachedTokens + 512, Missed: 512, Reason: promptcache.SystemChanged, Element: "system", Detail: promptcache.DetailTime, Confidence: promptcache.Certain,
			}
		}
		if i%10 == 0 {
			e.Status, e.Failed, e.ErrorType, e.FinishReason, e.ResponseID = 400, true, "invalid_request_error", "", ""
			e.Cause, e.CauseKnown, e.CauseClass, e.RootCause = "orphan_tool_reply", "both", "tool_pairing", "tool_calls_dropped_on_save"
			e.ErrorText = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
			e.Findings, e.Rejects, e.ToolCalls, e.OutputTokens, e.ResponseModel = 1, 1, 0, 0, ""
			e.CacheReported, e.CacheWritten, e.CacheHour, e.Cache = false, 0, 0, promptcache.Verdict{}
		}
		b.Exchanges = append(b.Exchanges, e)
		b.Findings = append(b.Findings, analyzer.Finding{
			ID: fmt.Sprintf("%032x", i), Fingerprint: fmt.Sprintf("%016x", i%3), Seq: uint64(2 * i), FirstSeen: e.StoredAt, StoredAt: e.StoredAt, Exchange: e.ID,
			ExchangeVersion: labels.ServiceVersion, ExchangeInstance: e.Instance, ExchangeMessages: e.Messages, Code: e.Code, AnswerCode: "core/agent.py:97 Agent.plan", FirstVersion: "1.4.0", LastClean: "1.3.9", CleanCalls: 618,
			Labels: labels, Attrs: e.Attrs, Conversation: labels.Conversation, Provider: e.Provider, Model: e.Model, Dialect: e.Dialect, Variant: e.Variant,
			Rule: "orphan_tool_reply", Detail: "after_plain_assistant", Predicted: check.Reject, Severity: check.Reject, Status: 400,
			Message: 2, ToolCallID: fmt.Sprintf("call_%08d", i), ToolName: "read_file",
			Summary:   fmt.Sprintf("tool message answers call_%08d, but the assistant message before it has no tool_calls", i),
			RootCause: "tool_calls_dropped_on_save", Confidence: "high",
			Evidence: "answer 1 asked for call read_file; message 1 of the next request is the same answer without tool_calls",
			Fix:      "Save the whole assistant message, tool_calls included.",
		})
		b.ToolCalls = append(b.ToolCalls, analyzer.ToolCall{
			ID: fmt.Sprintf("%032x", i), Seq: uint64(2 * i), Labels: labels, Attrs: e.Attrs, Conversation: labels.Conversation, Exchange: e.ID,
			CallID: fmt.Sprintf("call_%08d", i), Name: "read_file", State: session.Open, AskedAt: e.StoredAt, StoredAt: e.StoredAt,
		})
		b.Contents = append(b.Contents, analyzer.Content{
			ID: fmt.Sprintf("%032x", i), Kind: content.KindMessage, SeenAt: e.StoredAt, Bytes: 62,
			Body: fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%08d","content":"PORT = %d"}`, i, i),
		})
		b.History = append(b.History, analyzer.HistoryEntry{
			Seq: uint64(2 * i), SeenAt: e.StoredAt, Service: labels.Service, Conversation: labels.Conversation, Branch: e.Branch, Position: i % 12,
			Content: fmt.Sprintf("%032x", i), Role: "tool", Exchange: e.ID,
		})
		b.Runs = append(b.Runs, analyzer.Run{
			ID: fmt.Sprintf("%032x", i), Seq: uint64(2 * i), Labels: labels, Status: event.StatusStarted, SeenAt: e.StoredAt, StartedAt: at,
		})
		b.Alerts = append(b.Alerts, sinks.Alert{
			ID: fmt.Sprintf("%032x", i), Version: uint64(at.UnixNano()), Name: "StageFailureRate", Severity: "critical",
			Labels: map[string]string{"service": labels.Service, "stage": labels.Stage}, State: "firing", StartedAt: at, Value: 0.4, Peak: 0.45,
			Failed: 412, Calls: 1030, Shares: map[string]uint64{"tool_calls_dropped_on_save": 400, "rate_limited": 12},
			FirstBad: "1.4.0", LastClean: "1.3.9", Example: e.ID, Summary: "412 of 1,030 planner calls failed", NotifiedAt: at.Add(time.Second),
		})
		b.Actions = append(b.Actions, sinks.AlertAction{
			ID: fmt.Sprintf("%032x", i), At: at, Action: "silence", Name: "StageFailureRate", Service: labels.Service, Group: `StageFailureRate{service="checkout-agent"}`,
			SilenceID: fmt.Sprintf("%08x", i), Matchers: `service="checkout-agent"`, EndsAt: at.Add(time.Hour), Actor: "U07A", ActorName: "Anna",
			Via: "slack", Comment: "deploy",
		})
		b.Audit = append(b.Audit, sinks.AuditEntry{
			ID: fmt.Sprintf("%032x", i), At: at, Person: "Anna", Verified: true, Subject: "U07A", Role: "viewer", Action: "read_texts", Target: e.Conversation,
			Route: "GET /conversation/{id}", Via: "pages", Address: "192.0.2.7", Outcome: "done", Status: 200,
		})
	}
	return b
}

// Later changes the rows of b to later versions and returns b. In these versions, the call was answered, the alert is
// resolved, the exchange received a late answer, and the finding was seen again by a process that had no record of the
// conversation.
func Later(b *sinks.Batch) *sinks.Batch {
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.Seq++
		e.StoredAt, e.Status, e.Failed, e.ErrorText, e.Labels.Stage = e.StoredAt.Add(time.Hour), 200, false, "", "executor"
	}
	for i := range b.Findings {
		f := &b.Findings[i]
		f.Seq++
		f.FirstSeen, f.Exchange, f.Fingerprint, f.Severity = f.FirstSeen.AddDate(0, 2, 3), "another", "0123456789abcdef", check.Lenient
		f.Labels.Service, f.Labels.ServiceVersion, f.Labels.Stage = "executor-api", "2.0.0", "executor"
	}
	for i := range b.ToolCalls {
		c := &b.ToolCalls[i]
		c.Seq++
		c.State, c.AnsweredAt, c.AnsweredBy = session.Answered, c.AskedAt.Add(time.Minute), "another"
		c.StartedAt, c.EndedAt, c.ToolStatus = c.AskedAt.Add(time.Second), c.AskedAt.Add(30*time.Second), event.StatusOK
		c.Labels.ServiceVersion, c.Labels.Stage = "2.0.0", "executor"
	}
	for i := range b.Contents {
		b.Contents[i].SeenAt = b.Contents[i].SeenAt.AddDate(0, 2, 3)
	}
	for i := range b.History {
		h := &b.History[i]
		h.Seq++
		h.SeenAt = h.SeenAt.AddDate(0, 2, 3)
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		r.Seq++
		r.Status, r.SeenAt, r.EndedAt = event.StatusOK, r.SeenAt.AddDate(0, 2, 3), r.StartedAt.Add(time.Hour)
		r.Calls, r.Failed, r.LastExchange, r.LastStatus, r.LastCause = 12, 1, b.Exchanges[i].ID, 400, "orphan_tool_reply"
		r.Labels.ServiceVersion, r.Labels.Stage = "2.0.0", "executor"
	}
	for i := range b.Alerts {
		a := &b.Alerts[i]
		a.Version++
		a.State, a.EndedAt, a.Value = "resolved", a.StartedAt.Add(time.Hour), 0.01
		a.SilenceID, a.SilencedBy = "00000001", "anna"
	}
	return b
}

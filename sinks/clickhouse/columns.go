package clickhouse

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks"
)

// A column is a column of a table with rows of type R.
type column[R any] struct {
	name   string
	values func(rows []R) any // a typed slice with one value per row
	text   func(*R) string    // the value of a row for a String; nil if values are neither texts nor numbers
}

// col returns a column whose values are returned by get. V is the Go type that the client uses for the column's type.
func col[R, V any](name string, get func(*R) V) column[R] {
	text, ok := any(get).(func(*R) string)
	if kind := reflect.TypeFor[V]().Kind(); !ok && kind >= reflect.Bool && kind <= reflect.Float64 {
		text = func(r *R) string { return fmt.Sprint(get(r)) } // for a column whose type was changed
	}
	return column[R]{name: name, text: text, values: func(rows []R) any {
		vs := make([]V, len(rows))
		for i := range rows {
			vs[i] = get(&rows[i])
		}
		return vs
	}}
}

// labelColumns returns the columns for event labels except the conversation label, because the conversation of the row
// itself is more precise.
func labelColumns[R any](get func(*R) *event.Labels) []column[R] {
	return []column[R]{
		col("service", func(r *R) string { return cmp.Or(get(r).Service, "unknown") }),
		col("service_version", func(r *R) string { return get(r).ServiceVersion }),
		col("environment", func(r *R) string { return get(r).Environment }),
		col("agent", func(r *R) string { return get(r).Agent }),
		col("stage", func(r *R) string { return get(r).StageOrAgent() }),
		col("run_id", func(r *R) string { return get(r).Run }),
		col("user", func(r *R) string { return get(r).User }),
	}
}

var exchangeColumns = append(labelColumns(func(e *analyzer.Exchange) *event.Labels { return &e.Labels }),
	col("exchange_id", func(e *analyzer.Exchange) string { return e.ID }),
	col("seq", func(e *analyzer.Exchange) uint64 { return e.Seq }),
	col("attributes", func(e *analyzer.Exchange) sortedMap { return e.Attrs }),
	col("started_at", func(e *analyzer.Exchange) time.Time { return clamp(e.StartedAt) }),
	col("stored_at", func(e *analyzer.Exchange) time.Time { return clamp(e.StoredAt) }),
	col("conversation_id", func(e *analyzer.Exchange) string { return cmp.Or(e.Conversation, e.Labels.Conversation) }),
	col("inferred", func(e *analyzer.Exchange) bool { return e.Inferred }),
	col("operation", func(e *analyzer.Exchange) string { return e.Operation }),
	col("provider", func(e *analyzer.Exchange) string { return e.Provider }),
	col("server", func(e *analyzer.Exchange) string { return e.Server }),
	col("path", func(e *analyzer.Exchange) string { return e.Path }),
	col("dialect", func(e *analyzer.Exchange) string { return e.Dialect }),
	col("variant", func(e *analyzer.Exchange) string { return e.Variant }),
	col("model", func(e *analyzer.Exchange) string { return e.Model }),
	col("response_model", func(e *analyzer.Exchange) string { return e.ResponseModel }),
	col("status", func(e *analyzer.Exchange) uint16 { return u16(e.Status) }),
	col("failed", func(e *analyzer.Exchange) bool { return e.Failed }),
	col("error_type", func(e *analyzer.Exchange) string { return e.ErrorType }),
	col("cause", func(e *analyzer.Exchange) string { return e.Cause }),
	col("cause_known", func(e *analyzer.Exchange) string { return e.CauseKnown }),
	col("cause_class", func(e *analyzer.Exchange) string { return e.CauseClass }),
	col("root_cause", func(e *analyzer.Exchange) string { return e.RootCause }),
	col("error_text", func(e *analyzer.Exchange) string { return e.ErrorText }),
	col("error_cluster", func(e *analyzer.Exchange) string { return e.ErrorCluster }),
	col("input_tokens", func(e *analyzer.Exchange) *int64 { return usage(e, &e.InputTokens) }),
	col("output_tokens", func(e *analyzer.Exchange) *int64 { return outputUsage(e) }),
	col("cached_tokens", func(e *analyzer.Exchange) *int64 { return usage(e, &e.CachedTokens) }),
	col("cache_written_tokens", func(e *analyzer.Exchange) *int64 { return cacheUsage(e, &e.CacheWritten) }),
	col("cache_hour_tokens", func(e *analyzer.Exchange) *int64 { return cacheUsage(e, &e.CacheHour) }),
	col("cache_reusable_tokens", func(e *analyzer.Exchange) *int64 { return cacheUsage(e, &e.Cache.Reusable) }),
	col("cache_missed_tokens", func(e *analyzer.Exchange) *int64 { return cacheUsage(e, &e.Cache.Missed) }),
	col("cache_break", func(e *analyzer.Exchange) string { return e.Cache.Reason }),
	col("cache_element", func(e *analyzer.Exchange) string { return e.Cache.Element }),
	col("cache_detail", func(e *analyzer.Exchange) string { return e.Cache.Detail }),
	col("cache_confidence", func(e *analyzer.Exchange) string { return e.Cache.Confidence }),
	col("duration", func(e *analyzer.Exchange) float64 { return e.Duration.Seconds() }),
	col("first_byte", func(e *analyzer.Exchange) float64 { return e.FirstByte.Seconds() }),
	col("finish_reason", func(e *analyzer.Exchange) string { return e.FinishReason }),
	col("ended", func(e *analyzer.Exchange) string { return e.Ended }),
	col("stream", func(e *analyzer.Exchange) bool { return e.Stream }),
	col("request_bytes", func(e *analyzer.Exchange) uint64 { return u64(e.RequestBytes) }),
	col("response_bytes", func(e *analyzer.Exchange) uint64 { return u64(e.ResponseBytes) }),
	col("messages", func(e *analyzer.Exchange) uint32 { return u32(e.Messages) }),
	col("tool_calls", func(e *analyzer.Exchange) uint32 { return u32(e.ToolCalls) }),
	col("findings", func(e *analyzer.Exchange) uint32 { return u32(e.Findings) }),
	col("rejects", func(e *analyzer.Exchange) uint32 { return u32(e.Rejects) }),
	col("retry", func(e *analyzer.Exchange) uint16 { return u16(e.Retry) }),
	col("instance", func(e *analyzer.Exchange) string { return e.Instance }),
	col("instance_seq", func(e *analyzer.Exchange) uint64 { return e.InstanceSeq }),
	col("origin", func(e *analyzer.Exchange) string { return e.Origin }),
	col("capture", func(e *analyzer.Exchange) string { return e.Capture }),
	col("sdk", func(e *analyzer.Exchange) string { return e.SDK }),
	col("code", func(e *analyzer.Exchange) string { return e.Code }),
	col("degraded", func(e *analyzer.Exchange) bool { return e.Degraded }),
	col("provider_request_id", func(e *analyzer.Exchange) string { return e.ProviderRequestID }),
	col("response_id", func(e *analyzer.Exchange) string { return e.ResponseID }),
	col("trace_id", func(e *analyzer.Exchange) string { return e.Trace }),
	col("parent_span_id", func(e *analyzer.Exchange) string { return e.Span }),
	col("prompt_hash", func(e *analyzer.Exchange) uint64 { return e.PromptHash }),
	col("tools_hash", func(e *analyzer.Exchange) uint64 { return e.ToolsHash }),
	col("tools", func(e *analyzer.Exchange) []string { return e.Tools }),
	col("settings", func(e *analyzer.Exchange) sortedMap { return e.Settings }),
	col("branch", func(e *analyzer.Exchange) string { return e.Branch }),
	col("lead", func(e *analyzer.Exchange) []string { return e.Lead }),
	col("marked", func(e *analyzer.Exchange) map[uint32]string { return e.Marked }),
	col("parameters", func(e *analyzer.Exchange) string { return e.Parameters }),
	col("messages_at", func(e *analyzer.Exchange) uint32 { return u32(e.MessagesAt) }),
	col("answer", func(e *analyzer.Exchange) string { return e.Answer }),
	col("texts_dropped", func(e *analyzer.Exchange) string { return e.TextsDropped.String() }),
	col("texts_share", func(e *analyzer.Exchange) float32 { return float32(math.Round(1e6*(1-float64(e.TextsLeftOut))) / 1e6) }),
)

var findingColumns = append(labelColumns(func(f *analyzer.Finding) *event.Labels { return &f.Labels }),
	col("finding_id", func(f *analyzer.Finding) string { return f.ID }),
	col("fingerprint", func(f *analyzer.Finding) string { return f.Fingerprint }),
	col("first_version", func(f *analyzer.Finding) string { return f.FirstVersion }),
	col("last_clean_version", func(f *analyzer.Finding) string { return f.LastClean }),
	col("clean_calls", func(f *analyzer.Finding) uint32 { return uint32(f.CleanCalls) }),
	col("seq", func(f *analyzer.Finding) uint64 { return f.Seq }),
	col("first_seen", func(f *analyzer.Finding) time.Time { return clamp(f.FirstSeen) }),
	col("stored_at", func(f *analyzer.Finding) time.Time { return clampSeconds(f.StoredAt) }),
	col("exchange_id", func(f *analyzer.Finding) string { return f.Exchange }),
	col("exchange_version", func(f *analyzer.Finding) string { return f.ExchangeVersion }),
	col("exchange_instance", func(f *analyzer.Finding) string { return f.ExchangeInstance }),
	col("exchange_messages", func(f *analyzer.Finding) uint32 { return u32(f.ExchangeMessages) }),
	col("code", func(f *analyzer.Finding) string { return f.Code }),
	col("answer_code", func(f *analyzer.Finding) string { return f.AnswerCode }),
	col("conversation_id", func(f *analyzer.Finding) string { return cmp.Or(f.Conversation, f.Labels.Conversation) }),
	col("attributes", func(f *analyzer.Finding) sortedMap { return f.Attrs }),
	col("provider", func(f *analyzer.Finding) string { return f.Provider }),
	col("model", func(f *analyzer.Finding) string { return f.Model }),
	col("dialect", func(f *analyzer.Finding) string { return f.Dialect }),
	col("variant", func(f *analyzer.Finding) string { return f.Variant }),
	col("rule_id", func(f *analyzer.Finding) string { return f.Rule }),
	col("detail", func(f *analyzer.Finding) string { return f.Detail }),
	col("predicted", func(f *analyzer.Finding) string { return string(f.Predicted) }),
	col("severity", func(f *analyzer.Finding) string { return string(f.Severity) }),
	col("rejected_by", func(f *analyzer.Finding) []string { return f.RejectedBy }),
	col("status", func(f *analyzer.Finding) uint16 { return u16(f.Status) }),
	col("message_index", func(f *analyzer.Finding) int32 { return i32(f.Message) }),
	col("tool_call_id", func(f *analyzer.Finding) string { return f.ToolCallID }),
	col("tool_name", func(f *analyzer.Finding) string { return f.ToolName }),
	col("summary", func(f *analyzer.Finding) string { return f.Summary }),
	col("root_cause", func(f *analyzer.Finding) string { return f.RootCause }),
	col("confidence", func(f *analyzer.Finding) string { return f.Confidence }),
	col("evidence", func(f *analyzer.Finding) string { return f.Evidence }),
	col("fix", func(f *analyzer.Finding) string { return f.Fix }),
)

var toolCallColumns = append(labelColumns(func(c *analyzer.ToolCall) *event.Labels { return &c.Labels }),
	col("id", func(c *analyzer.ToolCall) string { return c.ID }),
	col("seq", func(c *analyzer.ToolCall) uint64 { return c.Seq }),
	col("conversation_id", func(c *analyzer.ToolCall) string { return cmp.Or(c.Conversation, c.Labels.Conversation) }),
	col("attributes", func(c *analyzer.ToolCall) sortedMap { return c.Attrs }),
	col("exchange_id", func(c *analyzer.ToolCall) string { return c.Exchange }),
	col("tool_call_id", func(c *analyzer.ToolCall) string { return c.CallID }),
	col("tool_name", func(c *analyzer.ToolCall) string { return c.Name }),
	col("state", func(c *analyzer.ToolCall) string { return c.State }),
	col("stored_at", func(c *analyzer.ToolCall) time.Time { return clampSeconds(c.StoredAt) }),
	col("asked_at", func(c *analyzer.ToolCall) time.Time { return clamp(c.AskedAt) }),
	col("answered_at", func(c *analyzer.ToolCall) *time.Time { return clampOrNull(c.AnsweredAt) }),
	col("answered_by", func(c *analyzer.ToolCall) string { return c.AnsweredBy }),
	col("started_at", func(c *analyzer.ToolCall) *time.Time { return clampOrNull(c.StartedAt) }),
	col("ended_at", func(c *analyzer.ToolCall) *time.Time { return clampOrNull(c.EndedAt) }),
	col("tool_status", func(c *analyzer.ToolCall) string { return c.ToolStatus }),
	col("reply_error", func(c *analyzer.ToolCall) string { return c.ReplyError }),
)

var contentColumns = []column[analyzer.Content]{
	col("id", func(c *analyzer.Content) string { return c.ID }),
	col("kind", func(c *analyzer.Content) string { return c.Kind }),
	col("seen_at", func(c *analyzer.Content) time.Time { return clampSeconds(c.SeenAt) }),
	col("bytes", func(c *analyzer.Content) uint32 { return u32(c.Bytes) }),
	col("body", func(c *analyzer.Content) string { return c.Body }),
}

var historyColumns = []column[analyzer.HistoryEntry]{
	col("conversation_id", func(h *analyzer.HistoryEntry) string { return h.Conversation }),
	col("branch", func(h *analyzer.HistoryEntry) string { return h.Branch }),
	col("position", func(h *analyzer.HistoryEntry) uint32 { return u32(h.Position) }),
	col("message_id", func(h *analyzer.HistoryEntry) string { return h.Content }),
	col("role", func(h *analyzer.HistoryEntry) string { return h.Role }),
	col("parent", func(h *analyzer.HistoryEntry) string { return h.Parent }),
	col("shared", func(h *analyzer.HistoryEntry) uint32 { return u32(h.Shared) }),
	col("service", func(h *analyzer.HistoryEntry) string { return h.Service }),
	col("exchange_id", func(h *analyzer.HistoryEntry) string { return h.Exchange }),
	col("seq", func(h *analyzer.HistoryEntry) uint64 { return h.Seq }),
	col("seen_at", func(h *analyzer.HistoryEntry) time.Time { return clamp(h.SeenAt) }),
}

var runColumns = append(labelColumns(func(r *analyzer.Run) *event.Labels { return &r.Labels }),
	col("id", func(r *analyzer.Run) string { return r.ID }),
	col("seq", func(r *analyzer.Run) uint64 { return r.Seq }),
	col("conversation_id", func(r *analyzer.Run) string { return r.Labels.Conversation }),
	col("status", func(r *analyzer.Run) string { return r.Status }),
	col("seen_at", func(r *analyzer.Run) time.Time { return clamp(r.SeenAt) }),
	col("started_at", func(r *analyzer.Run) *time.Time { return clampOrNull(r.StartedAt) }),
	col("ended_at", func(r *analyzer.Run) *time.Time { return clampOrNull(r.EndedAt) }),
	col("calls", func(r *analyzer.Run) uint32 { return u32(r.Calls) }),
	col("failed_calls", func(r *analyzer.Run) uint32 { return u32(r.Failed) }),
	col("last_exchange_id", func(r *analyzer.Run) string { return r.LastExchange }),
	col("last_status", func(r *analyzer.Run) uint16 { return u16(r.LastStatus) }),
	col("last_cause", func(r *analyzer.Run) string { return r.LastCause }),
)

var alertColumns = []column[sinks.Alert]{
	col("alert_id", func(a *sinks.Alert) string { return a.ID }),
	col("version", func(a *sinks.Alert) uint64 { return a.Version }),
	col("name", func(a *sinks.Alert) string { return a.Name }),
	col("severity", func(a *sinks.Alert) string { return a.Severity }),
	col("labels", func(a *sinks.Alert) sortedMap { return a.Labels }),
	col("state", func(a *sinks.Alert) string { return a.State }),
	col("started_at", func(a *sinks.Alert) time.Time { return clamp(a.StartedAt) }),
	col("ended_at", func(a *sinks.Alert) *time.Time { return clampOrNull(a.EndedAt) }),
	col("value", func(a *sinks.Alert) float64 { return a.Value }),
	col("peak", func(a *sinks.Alert) float64 { return a.Peak }),
	col("failed", func(a *sinks.Alert) uint64 { return a.Failed }),
	col("calls", func(a *sinks.Alert) uint64 { return a.Calls }),
	col("shares", func(a *sinks.Alert) map[string]uint64 { return a.Shares }),
	col("first_bad", func(a *sinks.Alert) string { return a.FirstBad }),
	col("last_clean", func(a *sinks.Alert) string { return a.LastClean }),
	col("example", func(a *sinks.Alert) string { return a.Example }),
	col("summary", func(a *sinks.Alert) string { return a.Summary }),
	col("notified_at", func(a *sinks.Alert) *time.Time { return clampOrNull(a.NotifiedAt) }),
	col("silence_id", func(a *sinks.Alert) string { return a.SilenceID }),
	col("silenced_by", func(a *sinks.Alert) string { return a.SilencedBy }),
	col("inhibited_by", func(a *sinks.Alert) string { return a.InhibitedBy }),
	col("problem", func(a *sinks.Alert) string { return a.Problem }),
}

var actionColumns = []column[sinks.AlertAction]{
	col("id", func(a *sinks.AlertAction) string { return a.ID }),
	col("at", func(a *sinks.AlertAction) time.Time { return clamp(a.At) }),
	col("action", func(a *sinks.AlertAction) string { return a.Action }),
	col("refused", func(a *sinks.AlertAction) bool { return a.Refused }),
	col("name", func(a *sinks.AlertAction) string { return a.Name }),
	col("service", func(a *sinks.AlertAction) string { return a.Service }),
	col("group_key", func(a *sinks.AlertAction) string { return a.Group }),
	col("incident", func(a *sinks.AlertAction) *time.Time { return clampOrNull(a.Incident) }),
	col("silence_id", func(a *sinks.AlertAction) string { return a.SilenceID }),
	col("matchers", func(a *sinks.AlertAction) string { return a.Matchers }),
	col("ends_at", func(a *sinks.AlertAction) *time.Time { return clampOrNull(a.EndsAt) }),
	col("actor", func(a *sinks.AlertAction) string { return a.Actor }),
	col("actor_name", func(a *sinks.AlertAction) string { return a.ActorName }),
	col("via", func(a *sinks.AlertAction) string { return a.Via }),
	col("comment", func(a *sinks.AlertAction) string { return a.Comment }),
}

var auditColumns = []column[sinks.AuditEntry]{
	col("id", func(a *sinks.AuditEntry) string { return a.ID }),
	col("at", func(a *sinks.AuditEntry) time.Time { return clamp(a.At) }),
	col("person", func(a *sinks.AuditEntry) string { return a.Person }),
	col("verified", func(a *sinks.AuditEntry) bool { return a.Verified }),
	col("subject", func(a *sinks.AuditEntry) string { return a.Subject }),
	col("role", func(a *sinks.AuditEntry) string { return a.Role }),
	col("action", func(a *sinks.AuditEntry) string { return a.Action }),
	col("target", func(a *sinks.AuditEntry) string { return a.Target }),
	col("detail", func(a *sinks.AuditEntry) string { return a.Detail }),
	col("route", func(a *sinks.AuditEntry) string { return a.Route }),
	col("via", func(a *sinks.AuditEntry) string { return a.Via }),
	col("address", func(a *sinks.AuditEntry) string { return a.Address }),
	col("outcome", func(a *sinks.AuditEntry) string { return a.Outcome }),
	col("status", func(a *sinks.AuditEntry) uint16 { return u16(a.Status) }),
}

// The range of DateTime64(9) after the epoch.
var (
	minTime = time.Unix(0, 0).UTC()
	maxTime = time.Unix(0, math.MaxInt64).UTC() // 2262-04-11
)

// usage returns tokens, or nil if the response reports no usage.
func usage(e *analyzer.Exchange, tokens *int64) *int64 {
	if e.InputTokens == 0 && e.OutputTokens == 0 {
		return nil
	}
	return tokens
}

// cacheUsage returns tokens, or nil if the answer does not say what the provider read from its cache.
func cacheUsage(e *analyzer.Exchange, tokens *int64) *int64 {
	if !e.CacheReported {
		return nil
	}
	return tokens
}

// outputUsage returns the output tokens, or nil if they are unknown.
func outputUsage(e *analyzer.Exchange) *int64 {
	if e.OutputTokens < 0 {
		return nil
	}
	return usage(e, &e.OutputTokens)
}

// clamp returns the time closest to t in the range of a column, because a broken clock must not stop the pipeline.
func clamp(t time.Time) time.Time {
	switch {
	case t.Before(minTime):
		return minTime
	case t.After(maxTime):
		return maxTime
	}
	return t
}

// clampSeconds is like clamp, but for columns of type DateTime.
func clampSeconds(t time.Time) time.Time {
	if t = clamp(t); t.Unix() > math.MaxUint32 {
		return time.Unix(math.MaxUint32, 0).UTC()
	}
	return t
}

func clampOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = clamp(t)
	return &t
}

func u16(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }
func u32(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
func u64(n int) uint64 { return uint64(max(n, 0)) }
func i32(n int) int32  { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

package otlp

import (
	"maps"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// attrs are the attributes of a span, an event, a log record or a resource.
type attrs map[string]pcommon.Value

func attrsOf(m pcommon.Map) attrs {
	a := make(attrs, m.Len())
	maps.Insert(a, m.All())
	return a
}

// text returns the first of the named attributes that is not empty, as text.
func (a attrs) text(names ...string) string {
	for _, name := range names {
		v, ok := a[name]
		if !ok {
			continue
		}
		s := ""
		switch v.Type() {
		case pcommon.ValueTypeSlice:
			if v.Slice().Len() > 0 {
				s = v.Slice().At(0).AsString()
			}
		case pcommon.ValueTypeEmpty:
		default:
			s = v.AsString()
		}
		if s = strings.ToValidUTF8(s, "\uFFFD"); s != "" {
			return s
		}
	}
	return ""
}

// number returns the first of the named attributes that is a number of at least 0, and whether there is one.
func (a attrs) number(names ...string) (float64, bool) {
	for _, name := range names {
		v, ok := a[name]
		if !ok {
			continue
		}
		var n float64
		switch v.Type() {
		case pcommon.ValueTypeInt:
			n = float64(v.Int())
		case pcommon.ValueTypeDouble:
			n = v.Double()
		case pcommon.ValueTypeStr:
			var err error
			if n, err = strconv.ParseFloat(v.Str(), 64); err != nil {
				continue
			}
		default:
			continue
		}
		if n >= 0 && n <= 1<<53 { // also excludes NaN
			return n, true
		}
	}
	return 0, false
}

// count returns the first of the named attributes that is a count, and whether there is one.
func (a attrs) count(names ...string) (int64, bool) {
	n, ok := a.number(names...)
	return int64(n), ok
}

// flag reports whether one of the named attributes is true.
func (a attrs) flag(names ...string) bool {
	for _, name := range names {
		if strings.EqualFold(a.text(name), "true") {
			return true
		}
	}
	return false
}

// has reports whether one of the named attributes is set.
func (a attrs) has(names ...string) bool {
	for _, name := range names {
		if _, ok := a[name]; ok {
			return true
		}
	}
	return false
}

// Names of attributes, the current one of the semantic conventions first, then older ones and those of OpenLLMetry
// (llm.*, traceloop.*), OpenInference (llm.*, session.id) and the Vercel AI SDK (ai.*). The conventions are of
// open-telemetry/semantic-conventions-genai v0.1.0, all of status Development. Its changelog replaces gen_ai.workflow.name by
// gen_ai.agent.name, and keeps the operation invoke_workflow with the span of invoke_agent:
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/CHANGELOG.md
var (
	nameOperation     = []string{"gen_ai.operation.name"}
	nameProvider      = []string{"gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "llm.vendor"}
	nameRequestModel  = []string{"gen_ai.request.model", "llm.request.model", "llm.model_name", "ai.model.id"}
	nameResponseModel = []string{"gen_ai.response.model", "llm.response.model", "ai.response.model"}
	nameResponseID    = []string{"gen_ai.response.id", "llm.response.id", "ai.response.id"}
	nameFinish        = []string{
		"gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.response.finish_reason", "llm.finish_reason",
		"llm.response.stop_reason", "ai.response.finishReason", "gen_ai.completion.0.finish_reason", "llm.completions.0.finish_reason",
	}
	nameInput = []string{
		"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.inputTokens",
		"ai.usage.promptTokens",
	}
	nameOutput = []string{
		"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens", "llm.token_count.completion",
		"ai.usage.outputTokens", "ai.usage.completionTokens",
	}
	nameCached = []string{
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "llm.usage.cache_read_input_tokens",
		"llm.token_count.prompt_details.cache_read", "ai.usage.cachedInputTokens",
	}
	nameStream       = []string{"gen_ai.request.stream", "llm.is_streaming", "gen_ai.is_streaming", "llm.request.stream"}
	nameFirstSeconds = []string{"gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token"}
	nameFirstMillis  = []string{"ai.response.msToFirstChunk"}
	nameConversation = []string{
		"gen_ai.conversation.id", "session.id", "traceloop.association.properties.conversation_id", "traceloop.association.properties.session_id",
		"traceloop.association.properties.thread_id", "ai.telemetry.metadata.conversationId", "ai.telemetry.metadata.sessionId",
	}
	nameUser = []string{
		"user.id", "enduser.id", "traceloop.association.properties.user_id", "ai.telemetry.metadata.userId", "llm.user", "gen_ai.request.user",
	}
	nameAgent   = []string{"gen_ai.agent.name", "agent.name", "gen_ai.workflow.name"}
	nameStage   = []string{"llmtap.stage"}
	nameRun     = []string{"llmtap.run", "gen_ai.workflow.run.id"}
	nameBase    = []string{"gen_ai.openai.api_base", "llm.openai.api_base", "openai.api_base", "url.full", "http.url"}
	nameRequest = []string{"gen_ai.response.request_id", "aws.request_id", "http.response.header.x-request-id", "http.response.header.request-id"}
	nameStatus  = []string{"http.response.status_code", "http.status_code"}

	nameEnvironment = []string{"deployment.environment.name", "deployment.environment"}
)

package otlp

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A call is an LLM call as far as its span or log record describes it.
type call struct {
	provider   string // as in wire.Providers, if known there
	base       string // scheme and host, or "" if unknown
	dialect    wire.Dialect
	model      string
	stream     bool
	input      []message // nil if not captured
	output     []message
	answeredBy string // model
	responseID string
	requestID  string
	finish     string

	tokens        bool // usage was reported
	inputTokens   int64
	outputTokens  int64
	cachedTokens  int64
	start         time.Time
	duration      time.Duration
	firstByte     time.Duration
	status        int    // HTTP status; 0 if the call failed without one
	errorType     string // "" if the call succeeded
	errorText     string
	trace, parent string // hexadecimal; "" if there is none
}

// kind is what a span describes.
type kind uint8

const (
	kindOther kind = iota // part of a call, a workflow, or nothing about LLMs
	kindCall              // one LLM call
	kindWork              // work of its own: a tool, an agent or a workflow. LLM calls below it are not those of an LLM span above it.
)

// kindOf returns what a span or a log record with these attributes describes.
func kindOf(a attrs) kind {
	switch strings.ToUpper(a.text("openinference.span.kind")) {
	case "":
	case "LLM":
		return kindCall
	case "TOOL", "AGENT":
		return kindWork
	default:
		return kindOther
	}
	if id := a.text("ai.operationId"); id != "" { // ai.generateText contains one ai.generateText.doGenerate for each call
		switch {
		case strings.HasSuffix(id, ".doGenerate"), strings.HasSuffix(id, ".doStream"):
			return kindCall
		case id == "ai.toolCall":
			return kindWork
		}
		return kindOther
	}
	switch a.text("traceloop.span.kind") {
	case "":
	case "tool", "agent":
		return kindWork
	default:
		return kindOther
	}
	switch a.text(nameOperation...) {
	case "chat", "text_completion", "generate_content", interactionsCreate, "completion", "responses", "messages":
		return kindCall
	case "execute_tool", "invoke_agent", "invoke_workflow":
		return kindWork
	case "":
	default: // embeddings, retrieval, create_agent, plan, and operations on memories
		return kindOther
	}
	switch a.text("llm.request.type") {
	case "chat", "completion":
		return kindCall
	case "":
	default:
		return kindOther
	}
	// Instrumentations before gen_ai.operation.name.
	if a.has("gen_ai.system", "gen_ai.provider.name") && a.has("gen_ai.request.model") && (a.has(nameInput...) || a.has("gen_ai.response.model", "gen_ai.prompt.0.role")) {
		return kindCall
	}
	return kindOther
}

// describe sets what the attributes say about the call, other than its messages and outcome.
func (c *call) describe(a attrs, spanName string) {
	c.provider = providerName(a.text(nameProvider...))
	c.model, c.answeredBy, c.responseID = a.text(nameRequestModel...), a.text(nameResponseModel...), a.text(nameResponseID...)
	c.finish, c.requestID, c.stream = a.text(nameFinish...), a.text(nameRequest...), a.flag(nameStream...)
	var in, out bool
	c.inputTokens, in = a.count(nameInput...)
	c.outputTokens, out = a.count(nameOutput...)
	c.cachedTokens, _ = a.count(nameCached...)
	c.tokens = in || out
	if s, ok := a.number(nameFirstSeconds...); ok && s < 1e6 {
		c.firstByte = time.Duration(s * float64(time.Second))
	} else if ms, ok := a.number(nameFirstMillis...); ok && ms < 1e9 {
		c.firstByte = time.Duration(ms * float64(time.Millisecond))
	}
	c.base = baseOf(a)
	c.rawBodies(a)
	c.dialect = dialectOf(c, a, spanName)
	if t, _ := wire.DetectURL(c.url()); t.Dialect != c.dialect { // the server is another one, or no model is known
		c.dialect = wire.OpenAIChat
	}
}

// rawBodies reads what OpenInference reports only within its copies of the request and the response.
func (c *call) rawBodies(a attrs) {
	var q struct {
		Model  any `json:"model"`
		Stream any `json:"stream"`
	}
	for _, name := range []string{"llm.invocation_parameters", "input.value"} {
		if s := a.text(name); strings.HasPrefix(s, "{") && json.Unmarshal([]byte(s), &q) == nil {
			if model, _ := q.Model.(string); c.model == "" {
				c.model = model
			}
			if q.Stream == true {
				c.stream = true
			}
		}
	}
	if s := a.text("output.value"); strings.HasPrefix(s, "{") && a.has("openinference.span.kind") {
		var r struct {
			ID      any `json:"id"`
			Model   any `json:"model"`
			Choices []struct {
				FinishReason any `json:"finish_reason"`
			} `json:"choices"`
			StopReason any `json:"stop_reason"`
		}
		if json.Unmarshal([]byte(s), &r) != nil {
			return
		}
		reason := r.StopReason
		if len(r.Choices) > 0 {
			reason = r.Choices[0].FinishReason
		}
		for field, v := range map[*string]any{&c.responseID: r.ID, &c.answeredBy: r.Model, &c.finish: reason} {
			if text, ok := v.(string); ok && *field == "" {
				*field = text
			}
		}
	}
}

// baseOf returns scheme and host of the server, as far as the attributes name it; "" if they do not.
func baseOf(a attrs) string {
	if u := a.text(nameBase...); strings.Contains(u, "://") {
		scheme, _, _ := strings.Cut(u, "://")
		host, port, _ := wire.SplitURL(u)
		if host != "" && (scheme == "http" || scheme == "https") {
			return scheme + "://" + join(host, port)
		}
	}
	host, port := a.text("server.address"), a.text("server.port")
	if host == "" {
		return ""
	}
	if strings.Contains(host, "://") { // some set a URL
		host, port, _ = wire.SplitURL(host)
	}
	scheme := "https"
	if port != "" && port != "443" {
		scheme = "http"
	}
	if port == "443" || port == "80" || port == "0" || port == "-1" {
		port = ""
	}
	return scheme + "://" + join(host, port)
}

func join(host, port string) string {
	if port == "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// providerNames maps spellings of providers to the names in wire.Providers.
var providerNames = map[string]string{
	"azure": "azure.ai.openai", "az.ai.openai": "azure.ai.openai", "azure_openai": "azure.ai.openai", "azure.openai": "azure.ai.openai",
	"az.ai.inference": "other", "azure.ai.inference": "other",
	"gemini": "gcp.gemini", "google": "gcp.gemini", "gcp.gen_ai": "gcp.gemini", "google_generativeai": "gcp.gemini", "google_genai": "gcp.gemini",
	"google.generative-ai": "gcp.gemini", "vertex_ai": "gcp.vertex_ai", "vertexai": "gcp.vertex_ai", "google.vertex": "gcp.vertex_ai",
	"aws_bedrock": "aws.bedrock", "bedrock": "aws.bedrock", "amazon-bedrock": "aws.bedrock", "aws": "aws.bedrock",
	"mistral": "mistral_ai", "mistralai": "mistral_ai", "xai": "x_ai", "together_ai": "together", "togetherai": "together",
	"fireworks_ai": "fireworks", "moonshot": "moonshot_ai", "moonshotai": "moonshot_ai", "zhipu": "glm", "zai": "glm", "dashscope": "qwen",
}

// providerName returns the name of a provider in wire.Providers, or else the name as sent, in lower case.
func providerName(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if name, ok := providerNames[s]; ok {
		return name
	}
	name, _, _ := strings.Cut(s, ".") // openai.chat, anthropic.messages of the Vercel AI SDK
	for i := range wire.Providers {
		switch wire.Providers[i].Name {
		case s:
			return s
		case name:
			return name
		}
	}
	if name, ok := providerNames[name]; ok {
		return name
	}
	return s
}

// interactionsCreate is the operation of opentelemetry-instrumentation-google-genai for Gemini's Interactions API (2026-06).
const interactionsCreate = "interactions.create"

// dialectOf returns the dialect in which the provider was probably called. It decides only how the columns dialect,
// variant and provider are filled, because bodies of degraded events are not checked.
func dialectOf(c *call, a attrs, spanName string) wire.Dialect {
	name := strings.ToLower(spanName)
	if a.text("openai.api.type") == "responses" || a.text(nameOperation...) == "responses" || name == "openai.response" || name == "response" ||
		strings.HasPrefix(a.text("gen_ai.system", "gen_ai.provider.name"), "openai.responses") {
		return wire.OpenAIResponses
	}
	if a.text(nameOperation...) == interactionsCreate || strings.HasSuffix(a.text(nameProvider...), ".interactions") { // google.generative-ai.interactions
		return wire.Interactions
	}
	for i := range wire.Providers {
		if p := &wire.Providers[i]; p.Name == c.provider && len(p.Variants) > 0 {
			return wire.Dialects[slices.IndexFunc(wire.Dialects, func(d wire.Dialect) bool { return slices.Contains(d.Variants(), p.Variants[0]) })]
		}
	}
	return wire.OpenAIChat
}

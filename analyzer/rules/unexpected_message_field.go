package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// UnexpectedMessageField finds keys of messages and calls that are not in the target's schema.
var UnexpectedMessageField = &check.Rule{
	ID:    "unexpected_message_field",
	Order: 340,
	Cause: "unsupported_field",
	Doc: `message with a field that the provider does not know

Some providers check every key: Groq answers "property 'timestamp' is unsupported", Mistral 422 extra_forbidden,
Fireworks and Anthropic "Extra inputs are not permitted", Cohere "unknown field: parameter 'index'", OpenAI's Responses
"Unknown parameter: 'input[1].metadata'", Gemini "Unknown name". Others ignore it. Usual causes: a framework keeps its
own data in the message and sends it along; a field of an answer or of a stream (index, finish_reason) is sent back; the
provider was switched. Build messages from a list of allowed keys instead of sending stored objects.`,
	Fix:      "Build messages for sending from the keys that the provider documents, instead of sending stored objects.",
	Severity: strictAPIs.and(wire.OpenAIResponses, openAIs...).and(wire.Interactions, wire.GeminiAPI).and(wire.OpenAIChat, wire.Groq, wire.Mistral, wire.Fireworks).reject,
	Run:      unexpectedMessageField,
}

// Sets of fields, by origin. reasoning_content_forbidden reports the reasoning fields.
const (
	ofResponses  = facts.FieldIndex | facts.FieldFinishReason | facts.FieldLogprobs | facts.FieldAnnotations | facts.FieldRefusal | facts.FieldAudio | facts.FieldExtraContent | facts.FieldID
	ofFrameworks = facts.FieldTimestamp | facts.FieldMetadata | facts.FieldToolName | facts.FieldCacheControl
	// ofOthers contains fields that are not in any schema of chat completions, except extra_content in Google's and tool_plan in
	// Cohere's.
	ofOthers = facts.FieldIndex | facts.FieldFinishReason | facts.FieldLogprobs | facts.FieldExtraContent | facts.FieldID |
		ofFrameworks | facts.FieldToolPlan | facts.FieldUnknown
)

func unexpectedMessageField(p *check.Pass) {
	refused, refusedByCalls, nulls := refusedFields(p.Target)
	if refused|refusedByCalls == 0 {
		return
	}
	mistral := p.Target.Dialect == wire.OpenAIChat && p.Target.Variant == wire.Mistral
	var seen facts.Fields // fields already reported; agents send a field with each message, so only its first occurrence is reported
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		fields := m.Fields
		if !nulls {
			fields &^= m.NullFields
		}
		if m.Role == facts.RoleTool {
			fields &^= facts.FieldName // handled below
		}
		if fields &= refused &^ seen; fields != 0 {
			seen |= fields
			reportFields(p, i, m, fields)
		}
		if mistral && m.ToolCalls != facts.Absent && m.Role != facts.RoleAssistant && m.Role != facts.RoleNone && seen&facts.FieldFunctionCall == 0 {
			seen |= facts.FieldFunctionCall // FieldFunctionCall marks this defect as reported
			p.Report(i, nil, nil, "other", "message %d (%s) has tool_calls, which only assistant messages have here", i, role(p, i))
		}
		if m.Role == facts.RoleTool && m.Fields&facts.FieldName&refusedByCalls&^seen != 0 {
			seen |= facts.FieldName
			p.Report(i, nil, nil, "name_on_tool", "message %d (tool) has a name, although the id of its call identifies it", i)
		}
		for j := range m.Calls {
			c := &m.Calls[j]
			if c.Fields&refusedByCalls&^facts.FieldName&^seen == 0 {
				continue
			}
			seen |= c.Fields & refusedByCalls
			detail, field := "other", "a field that calls do not have"
			if c.Fields&refusedByCalls&facts.FieldIndex != 0 {
				detail, field = "response_only", "the field index, which only answers have"
			}
			p.Report(i, c.ID, c.Name, detail, "message %d (%s) calls %s (%s) with %s", i, role(p, i), function(c), name(c.ID), field)
			break
		}
	}
}

// reportFields reports the refused fields of message i, one violation for each kind of field.
func reportFields(p *check.Pass, i int, m *facts.Message, fields facts.Fields) {
	if fields&facts.FieldUnknown != 0 { // for some dialects, all keys outside the schema are FieldUnknown
		for _, f := range fieldNames {
			if f.name == string(m.OtherField) {
				fields = fields&^facts.FieldUnknown | f.field
			}
		}
	}
	for _, kind := range [...]struct {
		detail string
		fields facts.Fields
	}{{"response_only", fields & ofResponses}, {"framework", fields & ofFrameworks}, {"other", fields &^ (ofResponses | ofFrameworks)}} {
		if kind.fields != 0 {
			p.Report(i, nil, nil, kind.detail, "message %d (%s) has the field %s, which this provider's messages do not have",
				i, role(p, i), fieldName(m, kind.fields))
		}
	}
}

// refusedFields returns the fields that t refuses in messages and in calls. FieldName in inCalls means the name of a tool
// message. nulls reports whether t also refuses fields that are null.
func refusedFields(t wire.Target) (inMessages, inCalls facts.Fields, nulls bool) {
	const strict = ofOthers | facts.FieldAnnotations
	if t.Dialect != wire.OpenAIChat {
		g := grammars[t.Dialect]
		return g.notInMessages, g.notInCalls, false
	}
	if t.Native { // Ollama's own API has a few additional keys and accepts unknown ones
		return ofOthers &^ (facts.FieldToolName | facts.FieldUnknown), 0, false
	}
	switch t.Variant {
	case wire.Groq, wire.Fireworks:
		return strict, 0, false
	case wire.Mistral:
		return strict | facts.FieldName | facts.FieldRefusal | facts.FieldAudio | facts.FieldFunctionCall, 0, true
	case wire.GeminiOpenAI: // reports contradict each other: some say that a name on a tool message is refused, others that it is required
		return ofOthers &^ facts.FieldExtraContent, facts.FieldName, false
	case wire.OpenRouter, wire.LiteLLM, wire.Qwen: // they document cache_control and forward fields for other providers
		return ofOthers &^ (facts.FieldCacheControl | facts.FieldExtraContent), 0, false
	default:
		return ofOthers, 0, false
	}
}

// fieldName returns the key of the first field in fields, or else another key of m.
func fieldName(m *facts.Message, fields facts.Fields) string {
	for _, f := range fieldNames {
		if fields&f.field != 0 {
			return f.name
		}
	}
	if len(m.OtherField) > 0 {
		return name(m.OtherField)
	}
	return "of another schema"
}

// fieldNames maps bits to keys. FieldPrefix is omitted because its key may be prefix or partial.
var fieldNames = [...]struct {
	field facts.Fields
	name  string
}{
	{facts.FieldName, "name"},
	{facts.FieldRefusal, "refusal"},
	{facts.FieldAudio, "audio"},
	{facts.FieldFunctionCall, "function_call"},
	{facts.FieldReasoningContent, "reasoning_content"},
	{facts.FieldReasoningDetails, "reasoning_details"},
	{facts.FieldReasoning, "reasoning"},
	{facts.FieldExtraContent, "extra_content"},
	{facts.FieldIndex, "index"},
	{facts.FieldFinishReason, "finish_reason"},
	{facts.FieldLogprobs, "logprobs"},
	{facts.FieldAnnotations, "annotations"},
	{facts.FieldTimestamp, "timestamp"},
	{facts.FieldMetadata, "metadata"},
	{facts.FieldToolName, "tool_name"},
	{facts.FieldCacheControl, "cache_control"},
	{facts.FieldID, "id"},
	{facts.FieldToolPlan, "tool_plan"},
}

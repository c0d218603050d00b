package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// AudioInputUnsupported finds audio in messages to models that do not hear.
var AudioInputUnsupported = &check.Rule{
	ID:    "audio_input_unsupported",
	Order: 134,
	Cause: "image_invalid",
	Doc: `audio in a message to a model without audio input

Only some models of OpenAI take input_audio (gpt-audio, gpt-4o-audio-preview); the others answer "Invalid 'messages[3]'.
Content blocks are expected to be either text or image_url type". DeepSeek answers 422, "unknown variant input_audio".
Usual causes: the model was changed in the middle of a conversation; a tool that returns a recording. Since the history is
sent again, every later request fails, too. Send the transcript as text, or use a model with audio input.`,
	Fix:      "Replace the audio by its transcript, also in the stored history, or use a model with audio input.",
	Severity: audioSeverity,
	Run:      audioInputUnsupported,
}

// audioSeverity returns Reject for DeepSeek, whose schema has no audio, and for the models of OpenAI that have been observed or
// are documented to have none. New models may have it.
//
// Sources: pydantic/pydantic-ai, recorded (gpt-4.1-mini); platform.openai.com/docs/models (gpt-4o, gpt-4.1);
// agentscope-ai/QwenPaw#7876 (DeepSeek).
func audioSeverity(t wire.Target) check.Severity {
	if t.Dialect != wire.OpenAIChat {
		return check.Lenient
	}
	switch t.Variant {
	case wire.DeepSeek:
		return check.Reject
	case wire.OpenAI:
		if after(t.Model, "gpt-4.1") >= 0 || after(t.Model, "gpt-4o") >= 0 {
			return check.Reject
		}
	default:
	}
	return check.Lenient
}

func audioInputUnsupported(p *check.Pass) {
	if p.Target.Dialect != wire.OpenAIChat || p.Target.Variant != wire.OpenAI && p.Target.Variant != wire.DeepSeek {
		return // models of the others may have audio input
	}
	if p.Target.Variant == wire.OpenAI && !modelIs(p, "gpt") || modelIs(p, "audio") || modelIs(p, "realtime") || modelIs(p, "transcribe") {
		return // other models are behind a gateway
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Parts&facts.PartAudio == 0 || m.Role == facts.RoleTool {
			continue // tool_content_part_unsupported is about tool messages
		}
		p.ReportAs(audioSeverity(p.Target), i, nil, nil, "", "%s has audio", at(p, i))
	}
}

package cause

import (
	"strings"
	"testing"
)

// The fix of one cause depends on what the text says.
func TestFix(t *testing.T) {
	for text, want := range map[string]string{
		"The tool_choice parameter does not support being set to required or object in thinking mode":                                                          "Turn thinking off",
		"tool_choice 'specified' is incompatible with thinking enabled":                                                                                        "Turn thinking off",
		"Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.":                                                           "Send tool_choice only together with tools.",
		"messages.1.content.0.thinking.signature: Field required":                                                                                              "Keep the signature",
		"messages.3.content.11: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.":                                  "Send the thinking blocks of the newest",
		"messages.69.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_01Q3. Each must have a corresponding block before":    "Store and resend the block of the provider's tool",
		"messages.5: `web_search` tool use with id `srvtoolu_01Q3` was found without a corresponding `web_search_tool_result` block":                           "Append one tool message for every call",
		"Missing required parameter: 'input[2].output'.":                                                                                                       "Send an output for each call",
		"At least one tool must have defer_loading=false. All tools cannot be deferred.":                                                                       "Set defer_loading to false",
		"The request body is not valid JSON: no low surrogate in string: line 1 column 31459 (char 31458)":                                                     "Cut texts between characters",
		"\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.": "Set thinking.type to adaptive",
		"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.":                                           "Send max_completion_tokens",
		"This model does not support assistant message prefill. The conversation must end with a user message.":                                                "End with a user message: this model",
		"Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.":                                          "Set tool_config.",
	} {
		c := Classify(Input{Status: 400, Text: []byte(text)})
		if !strings.HasPrefix(c.Fix, want) || c.Fix != Fix(c.ID, []byte(text)) {
			t.Errorf("%s\n%s: %s, want %s", text, c.ID, c.Fix, want)
		}
	}
}

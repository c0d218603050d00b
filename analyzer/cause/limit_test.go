package cause

import "testing"

// The words of a limit, a price or a filter are also in the names of parameters, fields and tools. There they state no cause.
func TestLimitWords(t *testing.T) {
	for _, text := range []string{
		"billing_mode is not a known parameter",
		"thinking budget exceeded: budget_tokens must be less than 32000",
		"the moderation parameter is not supported by this model",
		"rate_limit_tier: unknown parameter",
		"POST /v1/billing/messages: no route matches",
		"image rejected: harmful compression artifacts, could not decode",
		"response_format: nsfw schema 'policy' is missing additionalProperties",
		"tool_call_id 'call_login' not found",
		"messages[3].content: invalid type for key 'api_key', expected a string",
		"400 due to tool use concurrency issues",
		"最近频繁报错 400：参数错误",
	} {
		if c := Classify(Input{Status: 400, Text: []byte(text)}); c.Known == Stated && (c.Class == "access" || c.Class == "policy") {
			t.Errorf("%q states %s", text, c.ID)
		}
	}
}

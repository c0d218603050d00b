package cause

import (
	"bytes"
	"strings"
)

// A fingerprint is a spelling that is unique to one server or gateway. All parts must match: raw in the original text, first and
// then in the normal form.
type fingerprint struct {
	server      string
	raw         []byte
	first, then []byte
}

func spelled(server, raw, normal string) fingerprint {
	first, then, _ := strings.Cut(normal, " … ")
	return fingerprint{server: server, raw: []byte(raw), first: []byte(first), then: []byte(then)}
}

// servers lists the fingerprints of servers; the first match wins. Many servers share the wording of a check, so the wording
// alone does not identify a server.
var servers = []fingerprint{
	spelled("qwen", "", "<400> internalerror.algo"),
	spelled("deepseek", "", "(insufficient tool messages following tool_calls message)"),
	spelled("deepseek", "Messages with role", "must be a response to a preceding message"),
	spelled("openai", "", "invalid parameter:messages with role tool must be a response"), // also Azure, which runs OpenAI's server
	spelled("kimi", "tool_call_id  is not found", ""),
	spelled("kimi", "an assistant message with 'tool_calls'", ""),
	spelled("minimax", "", "invalid params, … (2013)"),
	spelled("glm", "", "error:{code:1214,"),
	spelled("mistral", "", "object:error, … code:3230"),
	spelled("groq", "", "the following must be satisfied["),
	spelled("xai", "", "code:client specified an invalid argument"),
	spelled("together", "", "type_:"),
	spelled("gemini_openai", "", "[{error:{code: … status:invalid_argument"),
	spelled("bedrock", "An error occurred (ValidationException) when calling the Converse", ""), // also ConverseStream
	spelled("vertex_gemini", "Unable to submit request because ", ""),
	spelled("anthropic", "`tool_use`", ""),
	spelled("anthropic", "", "request_id:req_011"),
	spelled("llamacpp", "", "[json.exception.parse_error"),
	spelled("ollama", "", "into go struct field chatrequest."),
}

// gateways lists the marks that gateways leave on the texts they forward.
var gateways = []fingerprint{
	spelled("litellm", "litellm.", "exception - "),
	spelled("openrouter", "", "provider returned error … provider_name:"),
	spelled("new-api", "", "type:new_api_error"),
	spelled("one-api", "", "(request id:"),
}

// writtenBy returns the server that wrote a text and the gateway that forwarded it; each is "" if the spelling does not show
// it.
func writtenBy(raw, normal []byte) (server, gateway string) {
	var tail []byte
	if len(raw) > maxText {
		raw, tail = raw[:maxText-maxTail], raw[len(raw)-maxTail:]
	}
	return find(servers, raw, tail, normal), find(gateways, raw, tail, normal)
}

func find(prints []fingerprint, raw, tail, normal []byte) string {
	for i := range prints {
		p := &prints[i]
		if (bytes.Contains(raw, p.raw) || bytes.Contains(tail, p.raw)) && bytes.Contains(normal, p.first) && bytes.Contains(normal, p.then) {
			return p.server
		}
	}
	return ""
}

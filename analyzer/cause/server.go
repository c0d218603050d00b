package cause

import "bytes"

// A fingerprint is a spelling that only one server or gateway has. All of its parts must be there: raw parts as they
// are written, with case and spaces, normal ones in the normal form.
type fingerprint struct {
	server string
	raw    string
	normal []string
}

// servers is who writes what; of two that fit, the first. One check has one wording at many servers, so the wording
// alone names nobody.
var servers = []fingerprint{
	{server: "qwen", normal: []string{"<400> internalerror.algo"}},
	{server: "deepseek", normal: []string{"(insufficient tool messages following tool_calls message)"}},
	{server: "deepseek", raw: "Messages with role", normal: []string{"must be a response to a preceding message"}},
	{server: "openai", normal: []string{"invalid parameter:messages with role tool must be a response"}}, // and Azure, which runs it
	{server: "kimi", raw: "tool_call_id  is not found"},
	{server: "kimi", raw: "an assistant message with 'tool_calls'"},
	{server: "minimax", normal: []string{"invalid params,", "(2013)"}},
	{server: "glm", normal: []string{"error:{code:1214,"}},
	{server: "mistral", normal: []string{"object:error,", "code:3230"}},
	{server: "groq", normal: []string{"the following must be satisfied["}},
	{server: "xai", normal: []string{"code:client specified an invalid argument"}},
	{server: "together", normal: []string{"type_:"}},
	{server: "gemini_openai", normal: []string{"[{ error:{ code:", "status:invalid_argument"}},
	{server: "anthropic", raw: "`tool_use`"},
	{server: "anthropic", normal: []string{"request_id:req_011"}},
	{server: "llamacpp", normal: []string{"[json.exception.parse_error"}},
	{server: "ollama", normal: []string{"into go struct field chatrequest."}},
}

// gateways is who passes a text on and leaves a mark on it.
var gateways = []fingerprint{
	{server: "litellm", raw: "litellm.", normal: []string{"exception - "}},
	{server: "openrouter", normal: []string{"provider returned error", "provider_name:"}},
	{server: "one-api", normal: []string{"(request id:"}},
}

// writtenBy names the server that wrote a text and the gateway that passed it on, where the spelling shows them.
func writtenBy(raw, normal []byte) (server, gateway string) {
	raw = raw[:min(len(raw), maxText)]
	return find(servers, raw, normal), find(gateways, raw, normal)
}

func find(prints []fingerprint, raw, normal []byte) string {
prints:
	for i := range prints {
		p := &prints[i]
		if p.raw != "" && !bytes.Contains(raw, []byte(p.raw)) {
			continue
		}
		for _, part := range p.normal {
			if !bytes.Contains(normal, []byte(part)) {
				continue prints
			}
		}
		return p.server
	}
	return ""
}

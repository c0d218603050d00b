package wire

import (
	"net/url"
	"slices"
	"strings"
)

// The request headers of an account, in Go's canonical form: those that can contain a key, in the order in which they are tried, and
// those of a part of the account.
var (
	keyHeaders  = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}
	partHeaders = []string{"Openai-Organization", "Openai-Project"}
)

// keyPrefixes are the beginnings of keys that are valid until somebody revokes them: OpenAI, Anthropic, DeepSeek, Moonshot, Alibaba Cloud,
// OpenRouter and LiteLLM; Groq; Cerebras; xAI; Gemini; Bedrock; Fireworks; Perplexity; NVIDIA; Hugging Face; Together.
var keyPrefixes = []string{"sk-", "gsk_", "csk-", "xai-", "AIza", "ABSK", "fw_", "pplx-", "nvapi-", "hf_", "tgp_"}

// tokenPrefixes are the beginnings of what expires and is renewed: tokens of Anthropic, JSON web tokens, tokens of Google.
var tokenPrefixes = []string{"sk-ant-oat", "eyJ", "ya29.", "auth_tokens/"}

// AWS signs each request anew, with a key whose id is in the signature. Ids that begin with AKIA are of keys that do not expire.
const (
	awsCredential = "Credential="
	awsKey        = "AKIA"
)

// Account returns the key of a request, and what else says which account pays for it: the text of which hooks publish a hash, see
// event.HashAccount. It is empty if there is no key or if the key may be one of those that expire, because their renewal would look like
// another account. header are the headers of the request, in canonical form, and query is the query of its URL.
func Account(header map[string][]string, query string) string {
	key := ""
	for _, name := range keyHeaders {
		if v := header[name]; len(v) > 0 && key == "" {
			key = accountKey(name, v[0])
		}
	}
	if key == "" && strings.Contains(query, "key=") {
		values, _ := url.ParseQuery(query)
		key = accountKey("", values.Get("key"))
	}
	if key == "" {
		return ""
	}
	for _, name := range partHeaders {
		if key += "\n"; len(header[name]) > 0 {
			key += header[name][0]
		}
	}
	return key
}

// accountKey returns the key in a header, or in the query if name is empty; "" if it may expire.
func accountKey(name, value string) string {
	begins := func(prefix string) bool { return strings.HasPrefix(value, prefix) }
	if name == keyHeaders[0] {
		if strings.HasPrefix(value, "AWS4-") {
			_, id, _ := strings.Cut(value, awsCredential)
			id, _, _ = strings.Cut(id, "/")
			if !strings.HasPrefix(id, awsKey) {
				return ""
			}
			return id
		}
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return ""
		}
		value = strings.TrimSpace(token)
	}
	if slices.ContainsFunc(tokenPrefixes, begins) {
		return ""
	}
	// Tokens without a form of their own are sent as these; keys without one, as the others.
	if (name == keyHeaders[0] || name == keyHeaders[1]) && !slices.ContainsFunc(keyPrefixes, begins) {
		return ""
	}
	return value
}

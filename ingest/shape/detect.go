package shape

import "strings"

// A Dialect is how a body is read; names as in spec/dialects.json. Of any other value nothing stays.
type Dialect string

// The dialects that have protocol positions.
const (
	OpenAIChat      Dialect = "openai_chat"
	OpenAIResponses Dialect = "openai_responses"
	Anthropic       Dialect = "anthropic"
	Gemini          Dialect = "gemini"
	Bedrock         Dialect = "bedrock"
	Cohere          Dialect = "cohere"
	Other           Dialect = "other"
)

// Detect is the dialect of a call to this path of a URL. Only the end of the path counts, so that gateways that put
// something before it are understood.
func Detect(path string) Dialect {
	path = strings.TrimRight(path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/api/chat"):
		return OpenAIChat
	case strings.HasSuffix(path, "/v2/chat"):
		return Cohere
	case last == "responses":
		return OpenAIResponses
	case last == "messages":
		return Anthropic
	case last == "converse", last == "converse-stream":
		return Bedrock
	}
	// Escaped or not: models/gemini-3-pro:streamGenerateContent.
	switch method(last) {
	case "generateContent", "streamGenerateContent":
		return Gemini
	case "rawPredict", "streamRawPredict":
		if strings.Contains(path, "/publishers/anthropic/") {
			return Anthropic
		}
	}
	return Other
}

// method is what follows the last colon of a path segment.
func method(segment string) string {
	if i := strings.LastIndexByte(segment, ':'); i >= 0 {
		return segment[i+1:]
	}
	for _, escaped := range [...]string{"%3A", "%3a"} {
		if i := strings.LastIndex(segment, escaped); i >= 0 {
			return segment[i+len(escaped):]
		}
	}
	return ""
}

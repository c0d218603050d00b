package facts

import (
	"net/url"
	"strings"
)

// Detect says who judges a request that was sent to url. The end of the path tells the dialect, the host the variant;
// behind an unknown host, a proxy say, the variant is that of a path segment which is exactly a variant's name, else
// other. Only where url does not decide does the body, if it is unmistakable: a wrong dialect gives false alarms. With a
// nil body Detect is cheap.
//
// Where the path names the model (Gemini, Bedrock, Claude on Vertex), so does the Target, unless model is given; else it
// is read from the body.
//
// Azure judges what it serves, models of other vendors too: its front answers a broken history before the model sees it.
func Detect(url, model string, body []byte) Target {
	host, port, path := SplitURL(url)
	t, decided := detectURL(strings.ToLower(host), port, strings.TrimRight(path, "/"))
	if !decided && body != nil {
		t = detectBody(t, path, body)
	}
	if model == "" && t.Model == "" {
		model = modelOf(body)
	}
	return t.WithModel(model)
}

// WithModel is t for a request to this model, "" if it names none. The model may say that the rules are not those of the
// host: Vertex serves models of others through the endpoint of Gemini, and some prefixes are LiteLLM's own. No prefix
// names the provider behind a gateway: a gateway may mend a request before it passes it on, so that the rules of the
// provider do not apply to what was sent.
func (t Target) WithModel(model string) Target {
	if model == "" {
		model = t.Model
	}
	t.Model = model
	if t.Dialect != OpenAIChat {
		return t
	}
	prefix, _, ok := strings.Cut(model, "/")
	switch {
	case !ok:
	case t.Variant == GeminiOpenAI && prefix != "google" && prefix != "models":
		t.Variant = OtherVariant
	case t.Variant == OtherVariant:
		switch prefix {
		case "litellm_proxy", "vertex_ai", "azure_ai", "together_ai", "fireworks_ai", "hosted_vllm", "ollama_chat":
			t.Variant = LiteLLM
		}
	}
	return t
}

// Streams reports that a path asks for a stream, as those of Gemini and Bedrock do; others ask in the body.
func Streams(path string) bool {
	last := unescape(path[strings.LastIndexByte(path, '/')+1:])
	return strings.HasSuffix(last, ":streamGenerateContent") || strings.HasSuffix(last, ":streamRawPredict") || last == "converse-stream" ||
		last == "invoke-with-response-stream"
}

// SplitURL cuts a URL into host, port and path without checking it; port is "" when none is given, query and
// fragment are dropped. The parts share url's memory. A url without "://" starts with its host, or with its path if it
// starts with a slash.
func SplitURL(url string) (host, port, path string) {
	if n := strings.Index(url, "://"); n >= 0 {
		url = url[n+3:]
	}
	if n := strings.IndexAny(url, "?#"); n >= 0 {
		url = url[:n]
	}
	if n := strings.IndexByte(url, '/'); n >= 0 {
		url, path = url[:n], url[n:]
	}
	host = url[strings.LastIndexByte(url, '@')+1:]
	if n := strings.LastIndexByte(host, ':'); n > strings.LastIndexByte(host, ']') {
		host, port = host[:n], host[n+1:]
	}
	return host, port, path
}

// detectURL is Detect by the URL alone. It has decided when the path is one of an API that it knows, judged or not, or the
// host is a provider's.
func detectURL(host, port, path string) (t Target, decided bool) {
	other := Target{Dialect: Other, Variant: OtherVariant}
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Target{Dialect: OpenAIChat, Variant: chatVariant(host, port, path)}, true
	case last == "responses":
		return Target{Dialect: OpenAIResponses, Variant: responsesVariant(host, port, path)}, true
	case strings.HasSuffix(path, "/v1/messages"):
		return Target{Dialect: Anthropic, Variant: anthropicVariant(host, path)}, true
	case last == "converse" || last == "converse-stream":
		if model := between(path, "/model/", "/"); model != "" {
			return Target{Dialect: Bedrock, Variant: BedrockAPI, Model: unescape(model)}, true
		}
	case last == "invoke" || last == "invoke-with-response-stream":
		// The body is the model's own. The first Claudes read a prompt too; what an ARN stands for, only the body says.
		model := unescape(between(path, "/model/", "/"))
		claude := strings.Contains(model, "anthropic.claude-")
		if claude && !strings.Contains(model, ".claude-v") && !strings.Contains(model, ".claude-instant") {
			return Target{Dialect: Anthropic, Variant: OtherVariant, Model: model}, true
		}
		other.Model = model
		return other, model != "" && !claude && !strings.HasPrefix(model, "arn:")
	case strings.HasSuffix(path, "/v2/chat"):
		if p := providerOf(host); p == hostCohere || p == "" && hasSegment(path, "cohere") {
			return Target{Dialect: Cohere, Variant: CohereAPI}, true
		}
	case strings.HasSuffix(path, "/api/chat"):
		if chatVariant(host, port, path) == Ollama {
			return Target{Dialect: OpenAIChat, Variant: Ollama, Native: true}, true
		}
	case isOther(path, last):
		return other, true
	default:
		if model, method := googleMethod(path, last); method != "" {
			return google(host, path, model, method)
		}
	}
	return other, providerOf(host) != ""
}

// isOther reports paths that take messages, or something like them, and do not ask a model for the next one.
func isOther(path, last string) bool {
	switch last {
	case "count_tokens", "count-tokens", "input_tokens", "tokenize", "batches", "embeddings", "embed", "rerank", "moderations",
		"completions", "generate", "cachedContents", "compact":
		return true
	}
	return strings.Contains(path, "/responses/") || strings.Contains(path, "/messages/") || strings.HasSuffix(path, "/v1/chat")
}

// googleMethod cuts models/gemini-3-pro:generateContent into model and method; the colon may be escaped.
func googleMethod(path, last string) (model, method string) {
	last = unescape(last)
	n := strings.LastIndexByte(last, ':')
	if n < 0 {
		return "", ""
	}
	model, method = last[:n], last[n+1:]
	if before := between(path, "/models/", "/"); before != "" { // a gateway's own prefix: models/gemini/gemini-3-pro
		model = unescape(before) + "/" + model
	}
	return model, method
}

func google(host, path, model, method string) (t Target, decided bool) {
	switch method {
	case "generateContent", "streamGenerateContent":
		// A path without a model is of another API, which wraps the request (v1internal:generateContent).
		if !strings.Contains(path, "/models/") && !strings.Contains(path, "/tunedModels/") && !strings.Contains(path, "/endpoints/") {
			break
		}
		t = Target{Dialect: Gemini, Variant: GeminiAPI, Model: model}
		if isVertex(host) || strings.Contains(path, "/publishers/") || strings.Contains(path, "/projects/") {
			t.Variant = VertexGemini
		}
		return t, true
	case "rawPredict", "streamRawPredict":
		if !strings.Contains(path, "/publishers/") {
			return Target{Dialect: Other, Variant: OtherVariant, Model: model}, false
		}
		if strings.Contains(path, "/publishers/anthropic/") && !strings.HasPrefix(model, "count-tokens") {
			return Target{Dialect: Anthropic, Variant: VertexAnthropic, Model: model}, true
		}
	}
	return Target{Dialect: Other, Variant: OtherVariant, Model: model}, true
}

// between is what stands between the first start and the last end after it; "" if there is neither.
func between(path, start, end string) string {
	_, rest, ok := strings.Cut(path, start)
	n := strings.LastIndex(rest, end)
	if !ok || n < 0 {
		return ""
	}
	return rest[:n]
}

// unescape decodes a part of a path; one that is not well escaped stays as it is.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

func hasSegment(path, name string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == name {
			return true
		}
	}
	return false
}

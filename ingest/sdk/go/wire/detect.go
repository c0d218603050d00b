package wire

import (
	"net/url"
	"slices"
	"strings"
)

// An Endpoint identifies an API by the end of its URL path.
type Endpoint struct {
	End       string   // end of the path, such as "/chat/completions" or ":generateContent"
	Within    []string // the path must contain one of these
	Model     string   // the model's name is between this and End; if this is empty, between the last slash and End
	Models    []string // the model's name must contain one of these
	NotModels []string // the model's name must contain none of these
	Only      Variant  // the host or the path must identify this variant; otherwise the endpoint belongs to another API
	Unknown   []string // at an unknown host the path must contain one of these, because other APIs have the same End
	Variant   Variant  // variant of all requests; "" if it depends on host and path
	Stream    bool     // answers are streams
	Native    bool     // endpoint of Ollama's own API
	Opaque    bool     // bodies are not shaped: events of streams are JSON in base64 in JSON
}

// DetectURL returns the target of requests to a URL. The end of the path determines the dialect, and the host
// determines the variant. At an unknown host, such as a proxy, a path segment that is the name of a variant
// determines it; otherwise it is OtherVariant. The target includes the model if the path does. decided is false if
// the path belongs to no known API and the host to no provider; the body may then identify the API.
//
// Azure's rules apply to all models that it serves, including models of other vendors, because its front end rejects
// a broken history before the model receives it.
func DetectURL(url string) (t Target, decided bool) {
	host, port, path := SplitURL(url)
	s := site{strings.ToLower(host), port, cleanPath(path)}
	other := Target{Dialect: Other, Variant: OtherVariant}
	if d, e, model := endpointOf(s.path); e != nil {
		v := e.Variant
		if v == "" {
			v = s.variant(d)
		}
		if e.Only != "" && v != e.Only {
			return other, ProviderOf(s.host) != nil
		}
		if v == "" {
			v = d.DefaultVariant()
		}
		return Target{Dialect: d.Dialect, Variant: v, Model: model, Native: e.Native}, true
	}
	last := lastSegment(s.path)
	switch {
	case last == "invoke" || last == "invoke-with-response-stream":
		other.Model, _ = modelIn(s.path, "/model/", "/"+last)
		// Only the body shows the model of an ARN.
		return other, other.Model != "" && !strings.HasPrefix(other.Model, "arn:") && !strings.Contains(other.Model, claudes[0])
	case last == "converse" || last == "converse-stream":
	case isOther(s.path, last):
		return other, true
	case strings.Contains(last, ":"):
		method := last[strings.LastIndexByte(last, ':'):]
		other.Model, _ = modelIn(s.path, "/models/", method)
		return other, method != ":rawPredict" && method != ":streamRawPredict" || strings.Contains(s.path, "/publishers/")
	}
	return other, ProviderOf(s.host) != nil
}

// CreatesBatch reports whether a POST to path creates a batch of calls, which the provider answers later.
func CreatesBatch(path string) bool {
	if !strings.Contains(path, "batch") { // hardly any path does
		return false
	}
	path = cleanPath(path)
	last := lastSegment(path)
	return last == "batches" || last == "batchPredictionJobs" || strings.HasSuffix(last, ":batchGenerateContent") || strings.HasSuffix(path, "/batch/jobs")
}

// PathDialect returns the dialect in which capture mode "shape" reads the bodies of requests to a URL path at any
// host. Gateways may prefix the path.
func PathDialect(path string) Dialect {
	if d, e, _ := endpointOf(cleanPath(path)); e != nil && !e.Opaque {
		return d.Dialect
	}
	return Other
}

// LooksLikeCall returns the dialect of a POST with a JSON body to path at an unknown host, and whether it probably is a
// call of an LLM. port is "" if the URL has none.
func LooksLikeCall(path, port string) (Dialect, bool) {
	path = cleanPath(path)
	d, e, _ := endpointOf(path)
	if e == nil || len(e.Unknown) > 0 && !containsOne(path, e.Unknown) && (!e.Native || port != OllamaPort) {
		return Other, false
	}
	return d.Dialect, true
}

// Streams reports whether a path requests a stream. Gemini and Bedrock have separate paths for streams; other
// dialects have a request member instead.
func Streams(path string) bool {
	path = cleanPath(path)
	for i := range Descriptors {
		for _, e := range Descriptors[i].Endpoints {
			if e.Stream && strings.HasSuffix(path, e.End) {
				return true
			}
		}
	}
	return false
}

// NativePath reports whether a path belongs to Ollama's own API. Other servers use such paths for other purposes.
func NativePath(path string) bool {
	_, e, _ := endpointOf(cleanPath(path))
	return e != nil && e.Native
}

// SplitURL splits a URL into host, port and path without validation. port is "" if the URL has none; query and
// fragment are dropped. The results share the memory of url. A URL without "://" starts with its host, or with its
// path if it starts with a slash.
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

// endpointOf returns the endpoint of a clean path and the model in the path; nil if there is no such endpoint.
func endpointOf(path string) (d *Descriptor, e *Endpoint, model string) {
	for i := range Descriptors {
		d = &Descriptors[i]
		for j := range d.Endpoints {
			e = &d.Endpoints[j]
			if model, ok := e.match(path); ok {
				return d, e, model
			}
		}
	}
	return nil, nil, ""
}

func (e *Endpoint) match(path string) (model string, ok bool) {
	if !strings.HasSuffix(path, e.End) || len(e.Within) > 0 && !containsOne(path, e.Within) {
		return "", false
	}
	if e.Model == "" {
		return "", true
	}
	model, ok = modelIn(path, e.Model, e.End)
	return model, ok && (len(e.Models) == 0 || containsOne(model, e.Models)) && !containsOne(model, e.NotModels)
}

// modelIn returns the decoded name between start and end, a suffix of path. If end is a method after a colon, start may be
// missing; the name is then the last segment.
func modelIn(path, start, end string) (model string, ok bool) {
	path = strings.TrimSuffix(path, end)
	_, model, ok = strings.Cut(path, start)
	if !ok && end[0] == ':' {
		model = lastSegment(path)
	}
	return unescape(model), model != ""
}

func containsOne(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// isOther reports whether path belongs to an API that accepts messages or similar input but does not request a
// message from a model.
func isOther(path, last string) bool {
	switch last {
	case "count_tokens", "count-tokens", "input_tokens", "tokenize", "batches", "embeddings", "embed", "rerank", "moderations",
		"completions", "generate", "cachedContents", "compact":
		return true
	}
	return strings.Contains(path, "/responses/") || strings.Contains(path, "/messages/") || strings.HasSuffix(path, "/v1/chat")
}

func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

var colons = strings.NewReplacer("%3A", ":", "%3a", ":")

// cleanPath removes slashes at the end and decodes colons in the last segment.
func cleanPath(path string) string {
	path = strings.TrimRight(path, "/")
	last := lastSegment(path)
	if strings.IndexByte(last, '%') < 0 {
		return path
	}
	return path[:len(path)-len(last)] + colons.Replace(last)
}

// unescape decodes a part of a path. A part with invalid escapes is returned unchanged.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// A site contains the parts of a URL: the host in lower case, the port and the clean path.
type site struct{ host, port, path string }

// variant returns the variant of the host or, at an unknown host or a relay, of the port or the path; "" if there is
// none.
func (s site) variant(d *Descriptor) Variant {
	p := ProviderOf(s.host)
	switch {
	case p == nil || p.Relay:
		if p = s.named(d, p != nil); p == nil {
			return ""
		}
	case d.Dialect == OpenAIChat && p.Name == "gcp.vertex_ai" && !strings.Contains(s.path, "/endpoints/openapi/"):
		return OtherVariant // a model deployed by a customer
	}
	return p.variant(d)
}

// named returns the provider identified by the port or the path. At an unknown public host, the path does not
// identify OpenAI or Anthropic, because such a host may serve other models under /openai/v1.
func (s site) named(d *Descriptor, relay bool) *Provider {
	if slices.Contains(d.Segments, Ollama) {
		switch {
		case s.port == OllamaPort:
			return providerWith(Ollama)
		case strings.Contains(s.path, "/openai/deployments/"):
			return providerWith(Azure)
		case strings.Contains(s.path, "/v1beta/openai/"):
			return providerWith(GeminiOpenAI)
		}
	}
	for segment := range strings.SplitSeq(s.path, "/") {
		v := Variant(segment)
		if v == OtherVariant || !slices.Contains(d.Segments, v) {
			continue
		}
		if v != OpenAI && v != AnthropicAPI || relay || isLocal(s.host) {
			return providerWith(v)
		}
	}
	return nil
}

package wire

// A rateLimit names the response headers of one rate limit, in Go's canonical form.
type rateLimit struct {
	Kind      string // what is limited
	Remaining string
	Limit     string
	Reset     string // "" if the provider sends none
}

// Kinds of rate limits.
const (
	LimitRequests     = "requests"
	LimitTokens       = "tokens"
	LimitInputTokens  = "input_tokens"
	LimitOutputTokens = "output_tokens"
)

// rateLimitHeaders are the headers that hooks read, and no others. OpenAI, Azure, Groq and most others have those of the first rows;
// Mistral and Cerebras name the period, and OpenRouter only says requests.
var rateLimitHeaders = []rateLimit{
	{LimitRequests, "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Reset-Requests"},
	{LimitTokens, "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Reset-Tokens"},
	{LimitRequests, "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Reset"},
	{LimitTokens, "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Reset"},
	{LimitInputTokens, "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{LimitOutputTokens, "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	{LimitRequests, "X-Ratelimit-Remaining-Req-Minute", "X-Ratelimit-Limit-Req-Minute", ""},
	{LimitRequests, "X-Ratelimit-Remaining-Requests-Day", "X-Ratelimit-Limit-Requests-Day", "X-Ratelimit-Reset-Requests-Day"},
	{LimitTokens, "X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Limit-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},
	{LimitRequests, "X-Ratelimit-Remaining", "X-Ratelimit-Limit", "X-Ratelimit-Reset"},
}

// retryAfter are the headers that say when to try again: in seconds and in milliseconds.
var retryAfter = []string{"Retry-After", "Retry-After-Ms"}

// maxLimitValue bounds the value of a header of a rate limit, in bytes.
const maxLimitValue = 32

// FormatRateLimits returns what a response says of its rate limits, in the format of event.Event.RateLimits; "" if nothing. The
// headers are in canonical form.
func FormatRateLimits(header map[string][]string) string {
	b := make([]byte, 0, 256)
	for i := range rateLimitHeaders {
		if r := &rateLimitHeaders[i]; len(header[r.Remaining]) > 0 {
			b = append(append(b, r.Kind...), '=')
			b = append(appendLimit(b, header[r.Remaining]), '/')
			b = append(appendLimit(b, header[r.Limit]), '/')
			b = append(appendLimit(b, header[r.Reset]), ' ')
		}
	}
	for i, name := range retryAfter {
		if v := header[name]; len(v) > 0 && validLimit(v[0]) {
			b = append(append(b, [...]string{"retry_after=", "retry_after_ms="}[i]...), v[0]...)
			b = append(b, ' ')
		}
	}
	return string(b[:max(len(b)-1, 0)])
}

// appendLimit appends the value of a header, if there is one that may be published.
func appendLimit(b []byte, values []string) []byte {
	if len(values) > 0 && validLimit(values[0]) {
		b = append(b, values[0]...)
	}
	return b
}

// validLimit reports whether v may be published: a number, a duration or a time.
func validLimit(v string) bool {
	if v == "" || len(v) > maxLimitValue {
		return false
	}
	for i := range len(v) {
		switch c := v[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == ':', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

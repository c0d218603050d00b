package otlp

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// A failure is what a span says about the failure of its call.
type failure struct {
	failed  bool   // the span's status is an error
	message string // description of the status
	typ     string // exception.type
	text    string // exception.message
}

// outcome sets the status and the error of the call.
//
// Instrumentations report the HTTP status rarely, but the text of an SDK's error and its class usually contain it. A call
// with an error and without a status has status 0. A span with status ERROR that says nothing about the error, but has what
// only an answer has, is that of a call that succeeded: its caller failed afterwards.
func (c *call) outcome(a attrs, f failure) {
	status, _ := a.count(nameStatus...)
	typ := a.text("error.type")
	if !f.failed && typ == "" && status < 400 {
		c.status = 200
		if status >= 200 {
			c.status = int(status)
		}
		return
	}
	c.errorText = cmp.Or(errorMessage(f.text), errorMessage(f.message), errorMessage(a.text("error.message", "exception.message")))
	c.errorType = cmp.Or(typ, f.typ, a.text("exception.type"))
	if status < 400 && c.errorText == "" && c.errorType == "" && c.outputTokens > 0 && c.answeredBy != "" {
		c.status = 200
		return
	}
	if c.errorType == "_OTHER" || isStatus(c.errorType) {
		c.errorType = cmp.Or(f.typ, a.text("exception.type"), c.errorType)
	}
	switch {
	case status >= 400 && status <= 599:
		c.status = int(status)
	case isStatus(typ):
		c.status, _ = strconv.Atoi(typ)
	default:
		if c.status = statusIn(c.errorText); c.status == 0 {
			c.status = statusOfClass(c.errorType)
		}
	}
	if c.errorText == "" {
		c.errorText = cmp.Or(c.errorType, "the span has status ERROR without a description")
	}
	c.errorType = cmp.Or(c.errorType, "error")
}

// errorMessage returns an error text without the stack trace that some instrumentations append.
func errorMessage(s string) string {
	s, _, _ = strings.Cut(s, "Traceback (most recent call last)")
	return strings.TrimSpace(s)
}

// isStatus reports whether s is an HTTP status of an error.
func isStatus(s string) bool {
	return len(s) == 3 && (s[0] == '4' || s[0] == '5') && s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9'
}

// statuses find the HTTP status in the text of an SDK's error.
var statuses = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\berror code: ([45]\d\d)\b`),                                   // openai and anthropic for Python
	regexp.MustCompile(`^(?:[\w.]+: )?([45]\d\d) [A-Za-z{"']`),                             // openai and anthropic for Node, google-genai
	regexp.MustCompile(`^[A-Z]+ "https?://[^"]+": ([45]\d\d) `),                            // openai and anthropic for Go
	regexp.MustCompile(`(?i)\b(?:status code|http status|status_code)\W{1,3}([45]\d\d)\b`), // others
}

func statusIn(text string) int {
	text = text[:min(len(text), 1024)]
	for _, re := range statuses {
		if m := re.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return 0
}

// classes are the errors of SDKs that stand for one HTTP status, without the suffixes Error and Exception.
var classes = map[string]int{
	"BadRequest": 400, "InvalidRequest": 400, "Validation": 400, "InvalidArgument": 400, "ContextWindowExceeded": 400,
	"Authentication": 401, "Unauthorized": 401, "PermissionDenied": 403, "AccessDenied": 403, "Forbidden": 403, "NotFound": 404, "ResourceNotFound": 404,
	"Conflict": 409, "RequestTooLarge": 413, "UnprocessableEntity": 422, "RateLimit": 429, "Throttling": 429, "ResourceExhausted": 429,
	"InternalServer": 500, "InternalServerError": 500, "ServiceUnavailable": 503, "Overloaded": 529, "DeadlineExceeded": 504,
}

// statusOfClass returns the HTTP status for which an SDK raises an error of a class, or 0.
func statusOfClass(class string) int {
	class = class[strings.LastIndexByte(class, '.')+1:]
	if n, ok := classes[class]; ok {
		return n
	}
	return classes[strings.TrimSuffix(strings.TrimSuffix(class, "Error"), "Exception")]
}

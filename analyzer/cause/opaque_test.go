package cause

import "testing"

// TestOpaque: a text that names no fault gets no cause, whatever its words; only violated rules can explain it.
func TestOpaque(t *testing.T) {
	for _, text := range []string{
		"", "Bad Request", "400 status code (no body)", "Invalid input", "Param Incorrect", "Invalid request",
		"Request contains an invalid argument.", "Provider returned error", "Request failed with status code 400",
		"The parameter is invalid. Please check again.", "One or more parameters of the request are not valid.",
		"The requested operation is unsupported.", "invalid params, invalid chat setting", "bad response status code 400",
		"The request could not be processed.", "Something is wrong with your request", "参数错误", "请求参数非法，请检查文档",
		"Your request was malformed", "validation failed", "unprocessable entity", "The body of the request was rejected",
	} {
		for n := range 8 {
			if c := Classify(Input{Status: 400, Text: []byte(wrap(n, text, 400))}); c.ID != unexplained {
				t.Errorf("%s: %s by %q", wrap(n, text, 400), c.ID, c.StatedBy)
			}
		}
	}
}

package recorded

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A batchLine is a line of a batch's file: a request for OpenAI (url, body) or Anthropic (params), or the answer to one.
type batchLine struct {
	ID     Text `json:"custom_id"`
	Method Text `json:"method"`
	URL    Text `json:"url"`

	Body   json.RawMessage `json:"body"`
	Params json.RawMessage `json:"params"`

	// OpenAI: one of the two is null.
	Response *struct {
		Status    int             `json:"status_code"`
		RequestID Text            `json:"request_id"`
		Body      json.RawMessage `json:"body"`
	} `json:"response"`
	Error *batchError `json:"error"`

	// Anthropic.
	Result *struct {
		Type    string          `json:"type"` // succeeded, errored, canceled, expired
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	} `json:"result"`
}

// A batchError is why a request of a batch has no answer.
type batchError struct {
	Code    Text `json:"code"`
	Message Text `json:"message"`
}

// BatchURLAnthropic is the URL of the single call that a request of a batch of Anthropic stands for.
const BatchURLAnthropic = "https://api.anthropic.com/v1/messages"

// BatchURL returns that of a request of a batch of OpenAI, whose url is only a path.
func BatchURL(url string) string {
	if strings.HasPrefix(url, "/") {
		return "https://api.openai.com" + url
	}
	return url
}

// notRun begins the error of requests of a batch that were not run or whose answer is not in the files: they did not fail.
const notRun = "cancelled: "

// batchOf reports whether the first line of a file is that of a batch's file, and whether it is a request.
func batchOf(line []byte) (batch, request bool) {
	if !bytes.Contains(line, []byte(`"custom_id"`)) {
		return false, false
	}
	var m map[string]json.RawMessage
	_ = json.Unmarshal(line, &m) // a line that is not an object has no members
	if m["custom_id"] == nil || m["request"] != nil {
		return false, false
	}
	request = m["body"] != nil || m["params"] != nil
	return request || m["response"] != nil || m["result"] != nil || m["error"] != nil, request
}

// parseBatch parses a line of a batch's file.
func parseBatch(raw []byte) (*record, Reason, error) {
	var l batchLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, NotJSON, fmt.Errorf("not a line of a batch: %w", NotJSONError(raw, err))
	}
	rec := &record{customID: string(l.ID), attrs: map[string]string{"custom_id": string(l.ID)}}
	switch {
	case l.ID == "":
		return nil, NotExchange, errors.New("not a line of a batch: no custom_id")
	case !absent(l.Body):
		rec.request, rec.method, rec.url = l.Body, string(l.Method), BatchURL(string(l.URL))
	case !absent(l.Params):
		rec.request, rec.url = l.Params, BatchURLAnthropic
	default:
		rec.answer = true
		if err := l.answer(rec); err != nil {
			return nil, NotExchange, err
		}
	}
	if !rec.answer {
		rec.err = notRun + "no answer was imported"
	}
	rec.requestType, rec.responseType = contentType(rec.request), contentType(rec.response)
	return rec, "", nil
}

// answer sets the response of a record.
func (l *batchLine) answer(rec *record) error {
	switch {
	case l.Response != nil:
		rec.status, rec.requestID, rec.response = l.Response.Status, string(l.Response.RequestID), l.Response.Body
	case l.Error != nil:
		code := strings.TrimPrefix(string(l.Error.Code), "batch_")
		if rec.err = fmt.Sprintf("%s: %s", l.Error.Code, l.Error.Message); code == "expired" || code == "cancelled" {
			rec.err = notRun + "the batch is " + code
		}
	case l.Result == nil:
		return errors.New("not a line of a batch: neither a request nor an answer")
	case l.Result.Type == "succeeded":
		rec.status, rec.response = http.StatusOK, l.Result.Message
	case l.Result.Type == "errored":
		rec.status, rec.response = statusOf(l.Result.Error), l.Result.Error
	default:
		rec.err = notRun + "the request is " + l.Result.Type
	}
	if rec.status < 0 || rec.status > 999 {
		return fmt.Errorf("not a line of a batch: status_code %d is not an HTTP status", rec.status)
	}
	return nil
}

// statusOf returns the HTTP status with which Anthropic answers a single call with an error.
func statusOf(body json.RawMessage) int {
	var e struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // an unknown error has the default status
	return cmp.Or(map[string]int{
		"invalid_request_error": http.StatusBadRequest,
		"authentication_error":  http.StatusUnauthorized,
		"billing_error":         http.StatusPaymentRequired,
		"permission_error":      http.StatusForbidden,
		"not_found_error":       http.StatusNotFound,
		"request_too_large":     http.StatusRequestEntityTooLarge,
		"rate_limit_error":      http.StatusTooManyRequests,
		"timeout_error":         http.StatusGatewayTimeout,
		"overloaded_error":      529,
	}[e.Error.Type], http.StatusInternalServerError)
}

// Answer sets the response of a request of a batch to that of its answer.
func (x *Exchange) Answer(answer *event.Event) {
	s := x.Response
	s.Status, s.Error, s.ProviderRequestID = answer.Status, answer.Error, answer.ProviderRequestID
	s.ContentType, s.Body, s.BodyBytes = answer.ContentType, answer.Body, answer.BodyBytes
}

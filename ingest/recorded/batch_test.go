package recorded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Lines of batches' files as OpenAI and Anthropic document them.
const (
	openAIRequests = `{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-5"}}
{"custom_id": "b", "method": "POST", "url": "/v1/responses", "body": {"model":  "gpt-5-mini"}}
{"custom_id": "c"}
{"method": "POST", "url": "/v1/responses", "body": {}}
`
	openAIAnswers = `{"id": "batch_req_1", "custom_id": "b", "response": {"status_code": 200, "request_id": "req_1", "body": {"id": "resp_1"}}, "error": null}
{"id": "batch_req_2", "custom_id": "a", "response": {"status_code": 400, "request_id": "req_2", "body": {"error": {"message": "no"}}}, "error": null}
{"id": "batch_req_3", "custom_id": "c", "response": null, "error": {"code": "batch_expired", "message": "This request could not be executed."}}
{"id": "batch_req_4", "custom_id": "d", "response": null, "error": {"code": "server_error", "message": "Sorry."}}
{"id": "batch_req_5", "custom_id": "e", "response": {"status_code": 2000}}
`
	anthropicRequests = `{"custom_id": "a", "params": {"model": "claude-opus-5", "max_tokens": 5}}
`
	anthropicAnswers = `{"custom_id": "a", "result": {"type": "succeeded", "message": {"id": "msg_1"}}}
{"custom_id": "b", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}}}
{"custom_id": "c", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "new_error"}}}}
{"custom_id": "d", "result": {"type": "canceled"}}
{"custom_id": "e", "result": {"type": "expired"}}
`
)

func TestBatch(t *testing.T) {
	f := func(file string, awaits bool, want ...string) {
		t.Helper()
		must.Equal(t, must.Get(NewReader(strings.NewReader(file), Config{}))(t).AwaitsAnswers, awaits, "awaits answers")
		all, got := read(t, file, Config{Service: "s"})
		for _, x := range all {
			if s := x.Response; x.Request == nil {
				got = append(got, fmt.Sprintf("answer %s %d %s %v %s", x.CustomID, s.Status, s.Body, s.Cancelled(), s.Error+s.ProviderRequestID))
			} else {
				got = append(got, fmt.Sprintf("%s %s %s %v %s", x.CustomID, x.Request.URL, x.Request.Body, s.Cancelled(), x.Request.Attrs["custom_id"]))
			}
		}
		must.Agree(t, cmp.Diff(want, got))
	}
	f(openAIRequests, true,
		"not_exchange f:3: not a line of a batch: neither a request nor an answer",
		"not_exchange f:4: not a line of a batch: no custom_id",
		`a https://api.openai.com/v1/chat/completions {"model": "gpt-5"} true a`,
		`b https://api.openai.com/v1/responses {"model":  "gpt-5-mini"} true b`)
	f(openAIAnswers, false,
		"not_exchange f:5: not a line of a batch: status_code 2000 is not an HTTP status",
		`answer b 200 {"id": "resp_1"} false req_1`,
		`answer a 400 {"error": {"message": "no"}} false req_2`,
		"answer c 0  true cancelled: the batch is expired",
		"answer d 0  false server_error: Sorry.")
	f(anthropicRequests, true, `a https://api.anthropic.com/v1/messages {"model": "claude-opus-5", "max_tokens": 5} true a`)
	f(anthropicAnswers, false,
		`answer a 200 {"id": "msg_1"} false `,
		`answer b 400 {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}} false `,
		`answer c 500 {"type": "error", "error": {"type": "new_error"}} false `,
		"answer d 0  true cancelled: the request is canceled",
		"answer e 0  true cancelled: the request is expired")
	// Not batches.
	f(`{"custom_id": "a", "url": "http://h/v1/messages", "request": {}, "response": {}, "status": 200}`, false, " http://h/v1/messages {} false ")
	f(`{"custom_id": "a"}`, false, "not_exchange f:1: not an exchange: no request")
	f(`["custom_id"]`, false, "not_json f:1: not a JSON object: json: cannot unmarshal array into Go value of type recorded.Line")
}

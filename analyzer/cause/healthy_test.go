package cause

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// states returns the cause that a text states, "" if it states none.
func states(text string, log bool) string {
	if c := Classify(Input{Status: 400, Text: []byte(text), Log: log}); c.StatedBy != "" && c.StatedBy != "status" {
		return c.ID
	}
	return ""
}

// Bodies of calls that did not fail state no cause. Of the values within them, explained as texts, hardly any does: a warning that
// a model is deprecated, or a sentence about an image.
func TestHealthyBodies(t *testing.T) {
	bodies, values, stated := 0, 0, 0
	seen := map[string]bool{}
	body := func(id, text string) {
		for _, log := range []bool{false, true} {
			bodies++
			must.Equal(t, states(text, log), "", "%s, log %v: %.300s", id, log, text)
		}
	}
	var within func(v json.RawMessage)
	within = func(v json.RawMessage) {
		var members map[string]json.RawMessage
		var list []json.RawMessage
		_ = json.Unmarshal(v, &members)
		_ = json.Unmarshal(v, &list)
		if text := string(v); members != nil || list != nil {
			if seen[text] {
				return
			}
			seen[text] = true
			values++
			stated += one(states(text, true) != "")
		}
		for name, m := range members {
			if name != "error" {
				within(m)
			}
		}
		for _, m := range list {
			within(m)
		}
	}
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var x struct {
			ID                string
			Status            int
			Request, Response json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &x))
		if x.Status/100 != 2 {
			return
		}
		for _, raw := range []json.RawMessage{x.Request, x.Response} {
			var stream string
			var failed struct{ Error any }
			switch {
			case json.Unmarshal(raw, &stream) == nil:
				body(x.ID, stream)
				continue
			case json.Unmarshal(raw, &failed) == nil && failed.Error != nil: // a few answers with status 200 are errors
				continue
			}
			body(x.ID, string(raw))
			within(raw)
		}
	})
	t.Logf("%d bodies; %d of %d values within them state a cause", bodies, stated, values)
	if stated*1000 > values {
		t.Error("more than 0.1 % of the values state a cause")
	}
}

// Words of several members of an object are no cause, but a member may say where the fault is that another one names.
func TestMembersAreClauses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		must.Equal(t, states(text, true), want, "%s", text)
	}
	f(`{"audio_tokens":0,"rejected_prediction_tokens":0}`, "")
	f(`{ "image" : "none" , "state" : "invalid" }`, "")
	f(`{"image":"is invalid"}`, "image_invalid")
	f(`{"loc":["body","tool_choice"],"msg":"is invalid"}`, "tool_choice_invalid")
	f(`{"message":"subject must not be valid against schema {\"required\":[\"messages\"]}#/messages/0/content: expected type: String"}`, "content_type_invalid")
	f(`{"error":{"code":400,"message":"Maximum 5 stop sequences allowed"}}`, "invalid_parameter_value")

	// However many there are.
	var members strings.Builder
	for i := range 2 * maxClauses {
		fmt.Fprintf(&members, `"a%d":1,`, i)
	}
	many := members.String()
	f("{"+many+`"audio_tokens":0,`+many+`"rejected_prediction_tokens":0,`+many+`"z":1}`, "")
	f("{"+many+`"image":"is invalid"}`, "image_invalid")
	f(`{"image":"is invalid",`+many+`"z":1}`, "image_invalid")
}

// The end of a long request or answer, or of a line of a stream, is not read without what it is a part of; an error after it is.
func TestEndsOfLongTexts(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		for _, log := range []bool{false, true} {
			must.Equal(t, states(text, log), want, "%s, log %v", name, log)
		}
	}
	words := strings.Repeat("and so on ", maxRead/4)
	said := words + "the image is invalid and it must be a valid file, " + strings.Repeat("really ", 20)
	request := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"tool_choice":"auto"}`, said)
	var indented strings.Builder
	fmt.Fprintf(&indented, "{\n  \"model\": \"m\",\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"note\": %q\n    }\n  ]\n}\n", said)
	f("request", request, "")
	f("indented request", indented.String(), "")
	f("error after a request", request+"\nopenai.BadRequestError: the image is invalid", "image_invalid")
	f("error after a request, in its line", "sent "+request+" and failed: the image is invalid", "image_invalid")
	f("error within an answer", fmt.Sprintf(`{"choices":[{"note":%q,"error":{"message":"the image is invalid"}}]}`, words), "image_invalid")
	f("error after an indented request", indented.String()+"Error: the image is invalid", "image_invalid")
	chunks := strings.Repeat("event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n", 400)
	f("stream", chunks+fmt.Sprintf("data: {\"delta\":%q}\n\n", "the image is invalid, "+strings.Repeat("very ", 200)), "")
	f("long error", fmt.Sprintf(`{"error":{"message":%q}}`, words+"the image is invalid"), "image_invalid")
}

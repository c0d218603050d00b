package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// geminiSeeds are request bodies that are difficult for a scanner.
var geminiSeeds = []string{
	`{}`,
	`{"tools":[{"functionDeclarations":[{"name":"f"}]},{"google_search":{}}],"toolConfig":{"includeServerSideToolInvocations":true},"contents":[]}`,
	` { "contents" : [ { "role" : "user" , "parts" : [ { "text" : "q" } ] } ] } `,
	`{"contents":{"role":"USER","parts":{"text":"q"}},"systemInstruction":{"parts":{"text":"s"}}}`,
	`{"contents":[{"parts":[{"thought":true,"text":"hm"},{"text":"a\u003cb\u003e"},{"text":"c"},{"functionCall":{"name":"f","args":{"x":"}\""}},"thoughtSignature":"a-b_c="}],"role":"model"},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"ok":[1]},"parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}},{"text":"so"}]}]}`,
	`{"contents":[{"role":"model","parts":[{"function_call":{"id":"1","name":"f\u0067"},"thought_signature":"\/w=="},{"function_call":null},{"function_call":7}]},{"role":"function","parts":[{"function_response":null},{"function_response":[]},{}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"a"},"functionCall":{"name":"b","args":{},"args":"x"}}],"parts":[{"functionCall":{}}],"x":1},null,[],"s"]}`,
	`{"contents":[{"parts":[]}],"contents":[{"role":"model","parts":[{"text":"a"},{"text":""},{"text":null},1]}]}`,
	`{"tools":[{"functionDeclarations":[{"name":"f"}]},{"google_search":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{"thinkingBudget":0}},"cachedContent":"c"}`,
	`{"t\u006fols":{"function_declarations":{"name":"\u0066"}},"tool_config":{"function_calling_config":{"allowed_function_names":"f","mode":"any"}},"generation_config":{"thinking_config":{"thinking_level":"low"}}}`,
	`{"contents":[{"role":"model","parts":[{"inlineData":{"mimeType":"audio\/wav"}},{"fileData":{}},{"executableCode":{"code":"\"}"}},{"thought":true}]}]}`,
}

// geminiAnswers are unary answers, streams of both kinds, and errors.
var geminiAnswers = []string{
	`{"candidates":[{"content":{"parts":[{"text":"a\u003cb\u003e"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"c2ln"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":1},"modelVersion":"gemini-3-pro","responseId":"r"}`,
	"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hm\",\"thought\":true}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}]}}]}\n\n" +
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"args\":{\"x\":1}}}]},\"finishReason\":\"STOP\"}]}\n\n",
	"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n{\"error\":{\"code\":503}}\n",
	"[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n,\r\n{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\"}]},\"finishReason\":\"STOP\"}]}\n]",
	`[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]`,
	`{"error":{"code":400}}`, `{"promptFeedback":{"blockReason":"SAFETY"}}`, `{"detail":"no"}`, `<html>`, ``, `[]`, `[1]`, ": ping\n\n",
	`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(x"},{"index":1}]}`,
	`{"candidates":{"content":{"parts":{"functionCall":{"args":"{\"a\"","name":"f"}}},"index":0}}`,
}

// Every prefix of an answer is cut, except of a stream behind its finish reason.
func TestGeminiAnswerPrefixes(t *testing.T) {
	for _, body := range geminiAnswers {
		for n := 1; n < len(body); n++ {
			r := answerIn(t, wire.Gemini, "", body[:n])
			if !r.Cut && r.FinishReason == "" && len(r.Error) == 0 {
				t.Errorf("%q: not cut", body[:n])
			}
		}
	}
}

func FuzzScanGeminiAnswer(f *testing.F) {
	for _, body := range geminiAnswers {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := answerIn(t, wire.Gemini, "text/event-stream", string(body))
		if len(r.Calls) > maxAnswerCalls || r.ContentBytes > 3*len(body) || (r.ContentHash != 0) != (r.ContentBytes > 0) {
			t.Fatalf("%q: %+v", body, r)
		}
		if json.Valid(body) && strings.HasPrefix(strings.TrimLeft(string(body), " \t\r\n"), "{") && r.Cut {
			t.Fatalf("%q is cut", body)
		}
	})
}

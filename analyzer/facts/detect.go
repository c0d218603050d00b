package facts

import "github.com/llmtap/llmtap/ingest/wire"

// Detect returns the target of a request that was sent to url. The URL decides as wire.DetectURL says; only where it does
// not does the body, if it is unmistakable: a wrong dialect gives false alarms. With a nil body Detect is cheap.
//
// Where the path names the model (Gemini, Bedrock, Claude on Vertex), so does the target, unless model is given; else it
// is read from the body.
func Detect(url, model string, body []byte) wire.Target {
	t, decided := wire.DetectURL(url)
	if !decided && body != nil {
		_, _, path := wire.SplitURL(url)
		t = detectBody(t, path, body)
	}
	if model == "" && t.Model == "" {
		model = modelOf(body)
	}
	return t.WithModel(model)
}

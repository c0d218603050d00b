package recorded

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// For any file, reading ends and every exchange can be encoded and decoded.
func FuzzReader(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte("\xef\xbb\xbf{\"request\":\"e30=\",\"request_encoding\":\"base64\"}\r\n\r\n[]\n{\"request\":{},\"status\":\"7\"}"))
	f.Add([]byte(`{"log":{"entries":[{"time":-1,"request":{"method":"POST","postData":{"text":"{\"model\":1}"}}}]}}`))
	f.Add([]byte(openAIRequests + openAIAnswers))
	f.Add([]byte(anthropicAnswers + anthropicRequests))
	if b, err := os.ReadFile("testdata/browser.har"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file), Config{Name: "f", Instance: "i", MaxLine: 1 << 20})
		if err != nil {
			return
		}
		for range len(file) + 2 {
			x, err := r.Next()
			var bad *RecordError
			switch {
			case errors.As(err, &bad):
				continue
			case err != nil:
				if !errors.Is(err, io.EOF) && x != nil {
					t.Fatal("an error and an exchange")
				}
				return
			}
			for _, e := range []*event.Event{x.Request, x.Response} {
				if e == nil {
					continue // an answer of a batch has no request
				}
				must.Do(t, must.Err(event.Decode(e.Subject(), e.Encode(), e.Body)), e)
			}
		}
		t.Fatal("reading does not end")
	})
}

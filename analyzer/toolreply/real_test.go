package toolreply_test

import (
	"encoding/json"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The replies in recorded traffic: -v prints those that report an error, and how many there are. Each of them was read: all do.
func TestRealReplies(t *testing.T) {
	var r toolreply.Reader
	found, seen := map[string]int{}, map[uint64]bool{}
	look := func(url string, body []byte) {
		d := facts.Detect(url, "", body).Dialect
		var f facts.Request
		if facts.ScanRequest(d, body, &f) != nil {
			return
		}
		for i := range f.Messages {
			for _, p := range f.Messages[i].Replies {
				got := r.Read(body[p.Start:p.End], p.IsError, p.ContentBytes)
				must.Equal(t, got.Hash, r.Read(body[p.Start:p.End], p.IsError, -1).Hash, "without the size of the content")
				if seen[got.Hash] {
					continue
				}
				seen[got.Hash] = true
				found[got.Error]++
				if got.Error != "" {
					t.Logf("%s: %.150s", got.Error, got.Content)
				}
			}
		}
	}
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) { look("", line) })
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var x struct {
			URL     string          `json:"url"`
			Request json.RawMessage `json:"request"`
		}
		must.Do(t, json.Unmarshal(line, &x))
		look(x.URL, x.Request)
	})
	t.Logf("different replies: %v", found)
	if found[toolreply.Likely] < 20 || found[""] < 400 {
		t.Errorf("found %v", found)
	}
}

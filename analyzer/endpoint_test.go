package analyzer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// URLs are remembered without their queries, and not without bound.
func TestEndpoints(t *testing.T) {
	m := make(endpoints)
	const url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent"
	e := m.of(url + "?alt=sse")
	if e.target.Dialect != wire.Gemini || e.target.Model != "gemini-3-pro" || !e.streams || e.batch || m.of(url) != e {
		t.Errorf("%+v", e)
	}
	must.Equal(t, m.of("https://api.openai.com/v1/batches").batch, true, "a batch")
	m.of("https://api.openai.com/v1/responses/" + strings.Repeat("r", maxURL))
	must.Equal(t, len(m), 2, "URLs")
	for i := range 3 * maxEndpoints {
		m.of(fmt.Sprint("https://api.openai.com/v1/responses/", i))
		if len(m) > maxEndpoints {
			t.Fatalf("%d URLs", len(m))
		}
	}
}

package erase

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

func TestWrite(t *testing.T) {
	r := &Report{DryRun: true, Scanned: 9, Events: 4, DeadLetters: 1, Rows: map[string]uint64{"exchanges": 2}}
	for format, want := range map[string]string{
		command.Text: "would be deleted:\n  events in the stream          4\n  dead letters                  1\n  exchanges                     2\n",
		command.JSON: "\"scanned\": 9,\n  \"events\": 4,",
	} {
		var b strings.Builder
		if err := r.Write(&b, format); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s", format, err, b.String())
		}
	}
}

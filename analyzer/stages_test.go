package analyzer

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/promptcache"
)

func TestStageRate(t *testing.T) {
	var recorded, live stage
	var rate int64
	for range 20 {
		if _, rate := recorded.see(&promptcache.Prompt{}, 0); rate != 0 {
			t.Fatalf("%d calls a minute at unknown times", rate)
		}
		_, rate = live.see(&promptcache.Prompt{Sent: 60}, 0)
	}
	if rate != 20 {
		t.Errorf("%d calls a minute", rate)
	}
}

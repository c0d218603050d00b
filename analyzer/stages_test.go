package analyzer

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/promptcache"
)

func TestStageRate(t *testing.T) {
	m := newPrompts(&Config{SessionLookback: time.Hour}, interner{})
	var recorded, live stage
	var rate int64
	for range 20 {
		if _, rate := m.see(1, &recorded, &promptcache.Prompt{}, 0); rate != 0 {
			t.Fatalf("%d calls a minute at unknown times", rate)
		}
		_, rate = m.see(2, &live, &promptcache.Prompt{Sent: 60}, 0)
	}
	if rate != 20 {
		t.Errorf("%d calls a minute", rate)
	}
}

package past

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/promptcache"
)

func TestUnavoidable(t *testing.T) {
	for reason := range strings.SplitSeq(Unavoidable, ", ") {
		if promptcache.Avoidable(strings.Trim(reason, "'")) {
			t.Errorf("%s is avoidable", reason)
		}
	}
}

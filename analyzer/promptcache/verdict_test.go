package promptcache

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// The hash of a prompt_cache_key in a shape depends on the process.
func TestCompareLoose(t *testing.T) {
	policy := Of(wire.Target{Variant: wire.OpenAI, Model: "gpt-5.4"}, false)
	earlier := Earlier{Prompt: Prompt{Input: 1, Parameters: policy.Digest(nil, nil, []byte("~7:6918e1011b292f49"))}}
	for _, earlier.Loose = range []bool{false, true} {
		c := Call{Policy: policy, Earlier: &earlier, Now: Prompt{Parameters: policy.Digest(nil, nil, []byte("~7:79c5b43cc7a46d72"))}}
		if c.Compare() == earlier.Loose {
			t.Errorf("loose %v: %+v", earlier.Loose, c.Broken)
		}
	}
}

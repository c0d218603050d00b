package session

import (
	"testing"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer/promptcache"
)

// The prompt of a history has the size that is accounted for, and its branch fits into the allocator's class of 256 bytes. Without the
// prompt, it would be in that of 192 or 208.
func TestBranchBytes(t *testing.T) {
	if n := unsafe.Sizeof(promptcache.Prompt{}); n != promptcache.PromptBytes {
		t.Errorf("a prompt has %d bytes", n)
	}
	if n := unsafe.Sizeof(branch{}); n > 256 {
		t.Errorf("a branch has %d bytes, and the next class 288", n)
	}
}

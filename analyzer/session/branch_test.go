package session

import (
	"testing"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The prompt of a history has the size that is accounted for. What every live conversation has is in the class of the allocator in which
// it would be without the prompt, with the 8 bytes that the allocator adds from 512 on. A further branch fits into that of 256 bytes.
func TestBytes(t *testing.T) {
	must.Equal(t, unsafe.Sizeof(promptcache.Prompt{}), promptcache.PromptBytes, "bytes of a prompt")
	if n := unsafe.Sizeof(branch{}); n > 256 {
		t.Errorf("a branch has %d bytes, and the next class 288", n)
	}
	if n := unsafe.Sizeof(conversation{}); n > 704-8 {
		t.Errorf("a conversation has %d bytes, and the next class 768", n)
	}
	if n := unsafe.Sizeof(Turn{}); n > 416 {
		t.Errorf("a turn has %d bytes, and the next class 448", n)
	}
}

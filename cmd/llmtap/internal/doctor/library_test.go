package doctor

import (
	"testing"

	"github.com/llmtap/llmtap/sinks/chdb"
)

// A machine without ClickHouse is told what it lacks and the command that adds it.
func TestNoClickHouse(t *testing.T) {
	for name, value := range map[string]string{"PATH": t.TempDir(), "HOME": t.TempDir(), "XDG_CACHE_HOME": "", "LLMTAP_LIBCHDB": ""} {
		t.Setenv(name, value)
	}
	if found, err := chdb.PresentLibrary(chdb.LibraryConfig{}); err == nil {
		t.Skipf("SKIPPED, this machine has another ClickHouse: %s", found)
	}
	expect(t, examine(t, nil), "libchdb", Warn, "there is no ClickHouse on this machine", chdb.HowToAdd)
}

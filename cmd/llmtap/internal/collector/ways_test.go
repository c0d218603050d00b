package collector

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestInstalls(t *testing.T) {
	t.Parallel()
	f := func(version string, released bool) {
		t.Helper()
		python, node := installs(version)
		must.Equal(t, python == "pip install llmtap\n", released, "Python, %s", version)
		must.Equal(t, node == "npm install llmtap\n", released, "Node.js, %s", version)
	}
	f("v0.2.0", true)
	f("v0.2.0-rc.1", false)
	f("v0.2.1-0.20261129120000-0123456789ab", false)
	f("v0.2.0+dirty", false)
	f("(devel)", false)
	f("", false)
}

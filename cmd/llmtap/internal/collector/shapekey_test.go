package collector

import (
	"os"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A process with its own NATS makes a key once; one with another NATS makes none; that of the environment is used as it is.
func TestShapeKey(t *testing.T) {
	t.Setenv(event.EnvShapeKey, "")
	c := &Collector{cfg: config.Default()}
	c.cfg.DataDir = t.TempDir()
	k := must.Get(c.newShapeKey())(t)
	must.Equal(t, k.text+k.export(), "", "with external NATS")
	must.Equal(t, k.missing(), NoShapeKey, "with external NATS")
	must.Equal(t, len(k.hashUser("ann")), 1, "hashes without a key")

	c.server = &natsserver.Server{}
	k = must.Get(c.newShapeKey())(t)
	must.Equal(t, len(k.text), 43, "characters of a new key")
	must.Equal(t, must.Get(c.newShapeKey())(t), k, "at the next start")
	must.Equal(t, must.Get(os.Stat(k.file))(t).Mode().Perm(), 0o600, "mode of the file")
	must.Contain(t, k.export(), `export LLMTAP_SHAPE_KEY="$(cat '`+k.file+`')"`, "line")
	must.Equal(t, k.missing(), "", "missing")
	must.Equal(t, strings.Join(k.hashUser("ann"), " "), event.HashUser(nil, "ann")+" "+event.HashUser([]byte(k.text), "ann"), "hashes")

	t.Setenv(event.EnvShapeKey, "own")
	must.Equal(t, must.Get(c.newShapeKey())(t), shapeKey{text: "own"}, "with a key in the environment")
}

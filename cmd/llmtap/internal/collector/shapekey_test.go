package collector

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A process with its own NATS makes a key once; that of the environment is used as it is.
func TestShapeKey(t *testing.T) {
	t.Setenv(event.EnvShapeKey, "")
	c := &Collector{cfg: config.Default(), server: &natsserver.Server{}}
	c.cfg.DataDir = t.TempDir()
	k := must.Get(c.newShapeKey(t.Context()))(t)
	must.Equal(t, len(k.text), 43, "characters of a new key")
	must.Equal(t, must.Get(c.newShapeKey(t.Context()))(t), k, "at the next start")
	must.Equal(t, must.Get(os.Stat(k.file))(t).Mode().Perm(), 0o600, "mode of the file")
	must.Contain(t, k.export(), `export LLMTAP_SHAPE_KEY="$(cat '`+k.file+`')"`, "line")
	must.Equal(t, k.missing(), "", "missing")
	must.Equal(t, strings.Join(k.hashUser("ann"), " "), event.HashUser(nil, "ann")+" "+event.HashUser([]byte(k.text), "ann"), "hashes")

	t.Setenv(event.EnvShapeKey, "own")
	must.Equal(t, must.Get(c.newShapeKey(t.Context()))(t), shapeKey{text: "own"}, "with a key in the environment")
}

// Processes on an external NATS share a key, which none of them takes from its environment. One that has the key needs no NATS, and one
// that finds no NATS starts without.
func TestSharedShapeKey(t *testing.T) {
	t.Setenv(event.EnvShapeKey, "own")
	cfg := natsserver.Default()
	cfg.Dir, cfg.Port, cfg.AllowAll, cfg.Logger = t.TempDir(), -1, true, slog.New(slog.DiscardHandler)
	srv := must.Get(natsserver.Start(t.Context(), cfg))(t)
	t.Cleanup(srv.Shutdown)
	first, second := outside(t, srv), outside(t, srv)
	must.Equal(t, must.Get(first.newShapeKey(t.Context()))(t), shapeKey{text: "own"}, "with a key in the environment")

	t.Setenv(event.EnvShapeKey, "")
	proxy := outside(t, srv)
	proxy.cfg.Roles = []string{config.RoleProxy}
	must.Equal(t, must.Get(proxy.newShapeKey(t.Context()))(t), shapeKey{}, "a proxy before there are streams")
	keys := make([]shapeKey, 2)
	var g errgroup.Group
	for i, c := range []*Collector{first, second} {
		g.Go(func() (err error) {
			keys[i], err = c.newShapeKey(t.Context())
			return err
		})
	}
	must.Do(t, g.Wait())
	must.Equal(t, keys[0].text, keys[1].text, "key of both processes")
	must.Equal(t, len(keys[0].text), 43, "characters of the key")
	must.Equal(t, must.Get(proxy.newShapeKey(t.Context()))(t).text, keys[0].text, "a proxy afterwards")
	must.Equal(t, must.Get(ShapeKey(second.cfg.DataDir))(t), keys[0].text, "in the data directory of the second")

	srv.Shutdown()
	must.Equal(t, must.Get(first.newShapeKey(t.Context()))(t), keys[0], "without NATS, at the next start")
	k := must.Get(outside(t, srv).newShapeKey(t.Context()))(t)
	must.Equal(t, k.text+k.export(), "", "without NATS")
	must.Equal(t, k.missing(), noShapeKey, "without NATS")
	must.Equal(t, len(k.hashUser("ann")), 1, "hashes without a key")
}

// outside returns a process with an empty data directory to which srv is external.
func outside(t *testing.T, srv *natsserver.Server) *Collector {
	c := &Collector{cfg: config.Default(), logger: slog.New(slog.DiscardHandler)}
	c.cfg.DataDir, c.nats = t.TempDir(), c.cfg.NATS
	c.nats.URL = srv.URL()
	return c
}

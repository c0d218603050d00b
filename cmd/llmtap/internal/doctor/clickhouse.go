package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Thresholds for the free fraction of a disk.
const (
	diskWarn = 0.10
	diskFail = 0.02
)

// checkClickHouse checks the configured server, or the running embedded one.
func (c *checker) checkClickHouse(ctx context.Context) {
	cfg, ok := connect.ClickHouse(c.cfg)
	where, none := config.MaskURL(cfg.DSN), false
	if c.cfg.ClickHouse.DSN == "" {
		none = c.checkLibrary()
		where = "embedded in " + config.ClickHouseDir(c.cfg.DataDir)
	}
	if !ok {
		if c.running && !none {
			c.fail("clickhouse", "see the log of llmtap up, and restart it", "the server %s is not running", where)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	st, err := clickhouse.Inspect(ctx, cfg)
	if err != nil {
		fix := "start the server or correct clickhouse.dsn; check firewalls"
		switch {
		case errors.Is(err, clickhouse.ErrLogin):
			fix = "correct the user in clickhouse.dsn, and the password there or in clickhouse.password_file"
		case st.Version != "":
			fix = "permit this user to read the database"
		}
		c.fail("clickhouse", fix, "%s: %v", where, err)
		return
	}
	c.ok("clickhouse", "%s, %s, database %s", st.Version, where, st.Database)
	if c.checkSchema(st) {
		c.checkServices(ctx, cfg)
	}
	if c.cfg.ClickHouse.DSN == "" {
		return // the embedded ClickHouse uses the disk of the data directory
	}
	for _, disk := range st.Disks {
		c.checkSpace("ClickHouse disk "+disk.Name+" ("+disk.Path+")", disk.Free, disk.Total, 0)
	}
}

// checkSchema reports whether the tables can be read.
func (c *checker) checkSchema(st *clickhouse.State) bool {
	changed, pending, newer := st.In(clickhouse.Changed), st.In(clickhouse.Pending), st.In(clickhouse.Newer)
	switch {
	case len(changed) > 0:
		c.fail("schema", "use the release that created this database, or an empty database", "applied migrations differ from those of this release: %s", strings.Join(changed, ", "))
	case st.NoDatabase:
		c.warn("schema", "start llmtap up, which creates it", "database %s does not exist yet", st.Database)
	case len(pending) > 0:
		c.warn("schema", "start llmtap up of this release, which applies them", "migrations are missing: %s", strings.Join(pending, ", "))
	case len(newer) > 0:
		c.warn("schema", "finish the upgrade, or use the newer release", "the database belongs to a newer release (migrations %s)", strings.Join(newer, ", "))
	default:
		c.ok("schema", "up to date")
		return true
	}
	return len(newer) > 0
}

// checkLibrary checks the library of the embedded ClickHouse, and reports whether there is none.
func (c *checker) checkLibrary() (none bool) {
	path, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: c.cfg.Chdb.CacheDir})
	switch {
	case errors.Is(err, chdb.ErrNone):
		c.warn("libchdb", "to store calls, run: "+chdb.HowToAdd, "%v; alerts and counts work without it", chdb.ErrNone)
	case err != nil:
		c.fail("libchdb", "", "%v", err) // err includes the fix
	case path == "":
		c.ok("libchdb", "not installed yet; the first start downloads it with npm (178 MB)")
	default:
		c.ok("libchdb", "%s", path)
	}
	return errors.Is(err, chdb.ErrNone)
}

// checkDisk checks the disk of the embedded servers.
func (c *checker) checkDisk() {
	if c.embedded() == "" {
		return
	}
	free, total, err := config.DiskSpace(c.cfg.DataDir)
	if err != nil {
		c.fail("disk", "set data_dir to a readable directory", "%v", err)
		return
	}
	stream := int64(0)
	if c.cfg.NATS.URL == "" {
		stream = c.cfg.NATS.MaxBytes
	}
	if reserve := uint64(c.cfg.Disk.Reserve); c.cfg.NATS.URL == "" && free < reserve {
		c.fail("disk", "free space, or lower disk.reserve; llmtap goes on by itself", "%s: %s of %s free, less than disk.reserve (%s): NATS refuses new events",
			c.cfg.DataDir, config.FormatBytes(free), config.FormatBytes(total), config.FormatBytes(reserve))
		return
	}
	c.checkSpace(c.cfg.DataDir, free, total, uint64(stream))
}

// checkSpace checks the free space of a disk. stream is the size to which a stream on the disk may grow.
func (c *checker) checkSpace(name string, free, total, stream uint64) {
	text := fmt.Sprintf("%s: %s of %s free", name, config.FormatBytes(free), config.FormatBytes(total))
	ratio := float64(free) / float64(max(total, 1))
	switch {
	case ratio < diskFail:
		c.fail("disk", "free space: NATS and ClickHouse stop writing when the disk is full", "%s", text)
	case ratio < diskWarn:
		c.warn("disk", "free space, or lower nats.max_bytes or clickhouse.retention", "%s", text)
	case stream > free:
		c.warn("disk", "free space, or lower nats.max_bytes", "%s, less than the %s that the stream may take", text, config.FormatBytes(stream))
	default:
		c.ok("disk", "%s", text)
	}
}

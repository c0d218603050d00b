package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Free space below which a disk is worth a word.
const (
	diskWarn = 0.10
	diskFail = 0.02
)

// checkClickHouse looks at the server that the configuration names, or at the embedded one that runs.
func (d *doctor) checkClickHouse(ctx context.Context) {
	cfg, where := d.s.ClickHouse, config.MaskURL(d.s.ClickHouse.DSN)
	if cfg.DSN == "" {
		d.checkLibrary()
		dsn, ok := chdb.Running(config.ClickHouseDir(d.s.DataDir))
		if !ok {
			if d.runs {
				d.fail("clickhouse", "restart llmtap up and read its log", "the embedded server in %s does not run", config.ClickHouseDir(d.s.DataDir))
			}
			return
		}
		cfg.DSN, where = dsn, "embedded in "+config.ClickHouseDir(d.s.DataDir)
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := clickhouse.Inspect(ask, cfg)
	if err != nil {
		fix := "start the server, or correct clickhouse.dsn; then look for a firewall in between"
		switch {
		case errors.Is(err, clickhouse.ErrLogin):
			fix = "correct the user in clickhouse.dsn, and its password there or in clickhouse.password_file"
		case st.Version != "":
			fix = "let this user read its database"
		}
		d.fail("clickhouse", fix, "%s: %v", where, err)
		return
	}
	d.ok("clickhouse", "%s, %s, database %s", st.Version, where, st.Database)
	d.checkSchema(st)
	if d.s.ClickHouse.DSN == "" {
		return // its disk is that of the data directory
	}
	for _, disk := range st.Disks {
		d.judgeDisk("clickhouse's disk "+disk.Name+" ("+disk.Path+")", disk.Free, disk.Total, 0)
	}
}

func (d *doctor) checkSchema(st *clickhouse.State) {
	changed, pending, newer := st.In(clickhouse.Changed), st.In(clickhouse.Pending), st.In(clickhouse.Newer)
	switch {
	case len(changed) > 0:
		d.fail("schema", "use the release that made this database, or an empty database", "applied migrations differ from this release's: %s", strings.Join(changed, ", "))
	case st.NoDatabase:
		d.warn("schema", "start llmtap up: it creates it", "there is no database %s yet", st.Database)
	case len(pending) > 0:
		d.warn("schema", "start llmtap up of this release: it applies them", "migrations are missing: %s", strings.Join(pending, ", "))
	case len(newer) > 0:
		d.warn("schema", "finish the update, or ask with the newer release", "the database belongs to a newer release (migrations %s)", strings.Join(newer, ", "))
	default:
		d.ok("schema", "up to date")
	}
}

// checkLibrary looks for the library of the embedded ClickHouse.
func (d *doctor) checkLibrary() {
	path, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: d.s.Chdb.CacheDir})
	switch {
	case err != nil:
		d.fail("libchdb", "", "%v", err) // which says what to do
	case path == "":
		d.ok("libchdb", "not here yet; npm fetches it at the first start, 178 MB")
	default:
		d.ok("libchdb", "%s", path)
	}
}

// checkDisk looks at the disk of the embedded servers.
func (d *doctor) checkDisk() {
	if d.embedded() == "" {
		return
	}
	free, total, err := config.DiskSpace(d.s.DataDir)
	if err != nil {
		d.fail("disk", "give data_dir a directory that can be read", "%v", err)
		return
	}
	stream := int64(0)
	if d.s.NATS.URL == "" {
		stream = d.s.NATS.MaxBytes
	}
	d.judgeDisk(d.s.DataDir, free, total, uint64(stream))
}

// judgeDisk says whether a disk has room, also for what a stream of this size may still take.
func (d *doctor) judgeDisk(name string, free, total, stream uint64) {
	text := fmt.Sprintf("%s: %s of %s free", name, config.FormatBytes(free), config.FormatBytes(total))
	share := float64(free) / float64(max(total, 1))
	switch {
	case share < diskFail:
		d.fail("disk", "make room: NATS and ClickHouse stop writing when it is full", "%s", text)
	case share < diskWarn:
		d.warn("disk", "make room, or keep less: nats.max_bytes, clickhouse.retention", "%s", text)
	case stream > free:
		d.warn("disk", "make room, or lower nats.max_bytes", "%s, less than the %s that the stream may take", text, config.FormatBytes(stream))
	default:
		d.ok("disk", "%s", text)
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var engineCommand = &command.Command{
	Name:  "engine",
	Short: "Install the library of the embedded ClickHouse, and print its path",
	Long: `llmtap up installs the library when it first needs it. This does so in advance, for
an image or a machine without npm: install it elsewhere, copy the directory, and
set chdb.cache_dir (LLMTAP_CHDB_CACHE_DIR) to the copy.`,
	Examples: `  llmtap engine
  llmtap engine --cache-dir /opt/llmtap`,
	Run: runEngine,
}

func runEngine(ctx context.Context, c *command.Call) error {
	dir := c.Parameters.String("cache-dir", "", "`directory` of the library; empty: the user's cache directory")
	if err := c.Parse(); err != nil {
		return err
	}
	progress := terminal.NewProgress(c.Stderr)
	path, err := chdb.FindLibrary(ctx, chdb.LibraryConfig{CacheDir: *dir, Progress: func(s string) { progress.Printf("%s", s) }})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Stdout, path)
	return err
}

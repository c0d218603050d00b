package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/importer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/recorded"
)

var importCommand = &command.Command{
	Name:  "import",
	Args:  "FILE|-...",
	Short: "Import recorded traffic: store and judge it, without alerts",
	Long: `Publishes recorded calls to a running llmtap. Imports never count in tallies,
so they trigger no alerts. Importing a file, or a copy of it, again with the same
--service and --date changes nothing. Reads, plain, gzip or zstd:

  JSON lines  one call per line:
              {"url":…, "request":…, "status":200, "response":…}
              Bodies are JSON, strings (such as server-sent events), or base64
              with "response_encoding":"base64". Optional: method, time,
              duration_ms, response_headers, error, service, service_version,
              environment, agent, stage, conversation, run_id
  HAR 1.2     the LLM calls saved by a browser, mitmproxy or another proxy
  batches     the files of OpenAI's and Anthropic's batch APIs: requests (for
              Anthropic a line {"custom_id":…, "params":…} each), results and
              errors, joined by custom_id, at most 1 GiB of results. A request
              without a result is checked and does not count as failed

Exit code: 0 if everything was imported, 1 on failure, 2 if some input is
unreadable (the rest is imported), 3 if a file has no records or there was
nothing to import.`,
	Examples: `  llmtap import traffic.jsonl.gz
  llmtap import --service checkout-agent --date 2026-11-20 agent-log.jsonl
  llmtap import batch-input.jsonl batch-output.jsonl batch-errors.jsonl
  llmtap import --nats-url nats://nats.internal:4222 *.har
  my-logs | llmtap import --format json -
  llmtap query --sql "SELECT cause, count() FROM exchanges_final
    WHERE origin = 'import' GROUP BY ALL"`,
	Run: runImport,
}

func runImport(ctx context.Context, c *command.Call) error {
	service := c.Parameters.String("service", "imported", "service `name` of records that contain none")
	date := c.Parameters.String("date", "", "`day` (2006-01-02, UTC) of records without a time; empty: 1970-01-01")
	wait := c.Flags.Bool("wait", true, "wait until everything is stored, if ClickHouse is reachable")
	servers := connect.DirectFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	cfg := recorded.Config{Service: *service, Instance: uuid.NewString()}
	var err error
	if *date != "" {
		if cfg.Day, err = time.Parse(time.DateOnly, *date); err != nil {
			return command.BadInputf("--date: %q is not a day such as 2006-01-02", *date)
		}
	}
	conn, err := servers.ConnectNATS(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	im := &importer.Importer{Config: cfg, Publisher: conn.NewPublisher(0), Stdin: c.Stdin, Progress: terminal.NewProgress(c.Stderr)}
	if *wait {
		store, closeStore, err := servers.Open(ctx)
		switch {
		case err == nil:
			defer closeStore()
			im.Store = store
		case errors.Is(err, collector.ErrNotRunning):
			im.Progress.Printf("not waiting until everything is stored: %v", err)
		default:
			return err
		}
	}
	err = im.Run(ctx, c.Args)
	if writeErr := im.Report.Write(c.Stdout, *format); err == nil {
		err = writeErr
	}
	if err == nil && !im.Report.Complete() {
		err = &command.ExitError{Code: command.ExitBadInput}
	}
	if err == nil && (im.Report.Exchanges == 0 || im.Report.Empty > 0) {
		err = &command.ExitError{Code: command.ExitNothing}
	}
	return err
}

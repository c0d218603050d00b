package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/secret"
)

var doctorCommand = &command.Command{Name: "doctor", Short: "Check a set-up: what is wrong, and what to do", Long: doctorHelp, Run: runDoctor}

const doctorHelp = `Check a set-up and say what is wrong and what to do, one line for each check. It changes nothing. Give it the
configuration of llmtap up; with embedded servers run it as the same user on the same machine.

  llmtap doctor
  llmtap doctor --config llmtap.yaml
  llmtap doctor --data-dir /var/lib/llmtap --format json

Exit code: 0 if nothing fails, though there may be warnings, else 1.`

// Verdicts of a check.
const (
	verdictOK   = "ok"
	verdictWarn = "warn" // works, but look at it
	verdictFail = "fail" // does not work
)

// A checkup is the result of one check.
type checkup struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// A doctor runs the checks.
type doctor struct {
	s       *config.Effective
	results []checkup
	running collector.Running // on the data directory
	runs    bool
	now     time.Time
}

const (
	doctorTimeout = 30 * time.Second // for all of it
	askTimeout    = 5 * time.Second  // for one server to answer
)

func runDoctor(ctx context.Context, c *command.Call) error {
	args := config.AddFlags(c.Flags, c.Getenv)
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	s, err := args.Load()
	d := &doctor{s: s, now: time.Now()}
	if err != nil {
		d.failConfig(err)
	} else {
		d.examine(ctx)
	}
	if err := d.write(c.Stdout, *format); err != nil {
		return err
	}
	if d.worst() == verdictFail {
		return &command.ExitError{Code: command.ExitFailed}
	}
	return nil
}

// examine runs every check that the ones before allow.
func (d *doctor) examine(ctx context.Context) {
	d.checkConfig()
	d.checkRunning(ctx)
	if url := d.natsURL(); url != "" {
		d.checkNATS(ctx, url)
	}
	d.checkDisk()
	d.checkClickHouse(ctx)
	d.checkRules(ctx)
	d.checkReceivers(ctx)
}

func (d *doctor) ok(check, format string, args ...any) {
	d.results = append(d.results, checkup{Check: check, Status: verdictOK, Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, fix, format string, args ...any) {
	d.results = append(d.results, checkup{check, verdictWarn, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) fail(check, fix, format string, args ...any) {
	d.results = append(d.results, checkup{check, verdictFail, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) worst() string {
	worst := verdictOK
	for _, r := range d.results {
		if r.Status == verdictFail || r.Status == verdictWarn && worst == verdictOK {
			worst = r.Status
		}
	}
	return worst
}

func (d *doctor) write(w io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(map[string]any{"status": d.worst(), "checks": d.results})
	}
	for _, r := range d.results {
		text := strings.Join(strings.Fields(r.Detail), " ") // one line
		if r.Fix != "" {
			text += "; " + r.Fix
		}
		if _, err := fmt.Fprintf(w, "%-4s  %-12s  %s\n", r.Status, r.Check, text); err != nil {
			return err
		}
	}
	return nil
}

// failConfig tells every mistake of the configuration.
func (d *doctor) failConfig(err error) {
	_, list, several := strings.Cut(err.Error(), "\n")
	if !several {
		list = err.Error()
	}
	for line := range strings.SplitSeq(list, "\n") {
		d.fail("config", "", "%s", line)
	}
}

// checkConfig tells which configuration counts, and whether the files it names can be read.
func (d *doctor) checkConfig() {
	set, keys := 0, d.s.Keys()
	for _, k := range keys {
		if d.s.Origin(k.Path).Source != config.FromDefault {
			set++
		}
		file := k.File()
		if file == "" {
			continue
		}
		if b, err := os.ReadFile(file); err != nil {
			d.fail("config", "create it, or let the user that runs llmtap read it", "%s: %v", k.Path, err)
		} else if strings.TrimSpace(string(b)) == "" {
			d.fail("config", "write the secret into it", "%s: %s is empty", k.Path, file)
		}
	}
	d.ok("config", "%s, %d of %d keys set; see llmtap config", d.s.Source(), set, len(keys))
}

// embedded says what of the set-up lives inside llmtap up.
func (d *doctor) embedded() string {
	switch {
	case d.s.NATS.URL == "" && d.s.ClickHouse.DSN == "":
		return "NATS and ClickHouse"
	case d.s.NATS.URL == "":
		return "NATS"
	case d.s.ClickHouse.DSN == "":
		return "ClickHouse"
	}
	return ""
}

func (d *doctor) natsURL() string {
	if d.s.NATS.URL != "" {
		return d.s.NATS.URL
	}
	return d.running.NATSURL
}

// checkRunning asks the process on this data directory whether it is well.
func (d *doctor) checkRunning(ctx context.Context) {
	d.running, d.runs = collector.FindRunning(d.s.DataDir)
	r := d.running
	switch {
	case !d.runs && d.embedded() != "":
		d.fail("collector", "start it: llmtap up; or give --config or --data-dir of the one that runs",
			"no llmtap runs on %s, so its embedded %s cannot be asked", d.s.DataDir, d.embedded())
		return
	case !d.runs:
		d.ok("collector", "none runs on %s; others may run elsewhere", d.s.DataDir)
		return
	}
	about := fmt.Sprintf("process %d (%s) runs for %s", r.PID, strings.Join(r.Roles, ", "), ago(d.now.Sub(r.Since)))
	if err := d.askReady(ctx); err != nil {
		d.fail("collector", "see the checks below and its log", "%s but is not ready: %v", about, err)
		return
	}
	d.ok("collector", "%s and is ready; http://%s/metrics", about, r.HTTPAddr)
}

// askReady asks the running process for /readyz.
func (d *doctor) askReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := d.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	return nil
}

// get asks the running process for a path. The caller closes the answer's body.
func (d *doctor) get(ctx context.Context, path string) (*http.Response, error) {
	host, port, err := net.SplitHostPort(d.running.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("read its address: %w", err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, err
	}
	if token, err := secret.Read(d.s.HTTP.Token, "token_file", d.s.HTTP.TokenFile); err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultClient.Do(req)
}

// ago writes a time span for people.
func ago(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Minute:
		return config.FormatDuration(d.Round(time.Second))
	}
	return config.FormatDuration(d.Round(time.Minute))
}

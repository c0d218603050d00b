package chdb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// stopTimeout is the maximum time for a child to exit. The child's own limit, childGrace, is shorter.
const stopTimeout = 10 * time.Second

// child runs one child process until the process exits. It calls ready once the child has answered a query, stops the
// child when run is done, and kills the child when killed is done.
func (s *Server) child(run, killed context.Context, ready func()) error {
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start ClickHouse: %w", err)
	}
	defer func() { _ = reports.Close() }()
	output := &lineLog{log: s.log}
	cmd := exec.CommandContext(killed, executable())
	cmd.Args = []string{"llmtap-clickhouse"}
	cmd.Env = childEnviron()
	cmd.Dir = s.config.Dir
	cmd.ExtraFiles = []*os.File{s.socket, reportEnd} // fd 3 and 4
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = sysProcAttr()
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		_ = reportEnd.Close()
		return fmt.Errorf("start ClickHouse: %w", err)
	}
	err = cmd.Start()
	_ = reportEnd.Close()
	if err != nil {
		return fmt.Errorf("start ClickHouse: %w", err)
	}

	var failed string // written by the goroutine below; valid after read is closed
	isReady := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		failed = s.readReports(reports, isReady)
	}()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if err := json.NewEncoder(stdin).Encode(s.config); err != nil {
		s.log.Warn("write clickhouse configuration", "error", err) // the child has exited; Wait returns the reason
	}

	runDone := run.Done()
	var bound <-chan time.Time
	for {
		select {
		case <-isReady:
			isReady = nil
			if err := s.probe(run); err != nil {
				if run.Err() == nil {
					s.log.Warn("clickhouse does not respond, killing it", "error", err)
					_ = cmd.Process.Kill()
				}
				continue
			}
			ready()
		case <-runDone:
			runDone = nil
			_ = stdin.Close()
			bound = time.After(stopTimeout)
		case <-bound:
			s.log.Warn("clickhouse does not stop, killing it", "timeout", stopTimeout)
			_ = cmd.Process.Kill()
		case err := <-exited:
			_ = stdin.Close()
			if !isLibrary(s.config.Library) { // a program that outlived its child would keep the lock of the directory
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
			<-read
			return exitError(err, failed, output.last())
		}
	}
}

// exitError returns an error with the reason why a child exited, including its last report and output.
func exitError(err error, failed, output string) error {
	switch {
	case strings.Contains(output, "Cannot lock file"):
		return fmt.Errorf("start ClickHouse: another ClickHouse has the directory open; stop it or use another directory: %s", output)
	case failed != "" && output != "":
		return fmt.Errorf("run ClickHouse: %s: %s", failed, output)
	case failed != "":
		return fmt.Errorf("run ClickHouse: %s", failed)
	case err == nil:
		return errors.New("run ClickHouse: unexpected exit")
	case output != "":
		return fmt.Errorf("run ClickHouse: %w: %s", err, output)
	}
	return fmt.Errorf("run ClickHouse: %w", err)
}

// readReports processes the reports of the child until the child exits: statements, readiness and a failure. It returns
// the failure, if any.
func (s *Server) readReports(r io.Reader, isReady chan<- struct{}) (failed string) {
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var rep report
		if err := dec.Decode(&rep); err != nil {
			return failed
		}
		switch {
		case rep.Query != nil:
			s.metrics.query(*rep.Query)
			s.log.Debug("clickhouse statement", "query_id", rep.Query.ID, "kind", rep.Query.Kind, "code", rep.Query.Code,
				"duration", time.Duration(rep.Query.Nanoseconds), "read_rows", rep.Query.ReadRows, "written_rows", rep.Query.WrittenRows)
		case rep.Ready:
			close(isReady)
		case rep.Failed != "":
			failed = rep.Failed
		}
		s.metrics.dropped.Add(float64(rep.Dropped))
	}
}

// probe runs a query over the same socket as clients.
func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.dsnOrigin(), strings.NewReader("SELECT 1"))
	if err != nil {
		return err
	}
	req.SetBasicAuth(httpd.User, s.config.Password)
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("probe ClickHouse: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("probe ClickHouse: %w", err)
	}
	if string(b) != "1\n" {
		return fmt.Errorf("probe ClickHouse: unexpected response %d %q", resp.StatusCode, b)
	}
	return nil
}

func (s *Server) dsnOrigin() string { return "http://" + s.listener.Addr().String() + "/" }

// A lineLog logs the output of the child line by line and retains the last lines for errors.
type lineLog struct {
	log *slog.Logger

	mu   sync.Mutex // guards the fields below
	part []byte     // beginning of an incomplete line, at most maxLine bytes
	tail []string   // last lines, at most tailLines
}

const (
	maxLine   = 4 << 10
	tailLines = 5
)

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		l.part = append(l.part, line[:min(len(line), maxLine-len(l.part))]...)
		if !ended {
			break
		}
		if s := strings.TrimSpace(string(l.part)); s != "" {
			l.log.Warn("clickhouse output", "line", s)
			l.tail = append(l.tail, s)
			l.tail = l.tail[max(0, len(l.tail)-tailLines):]
		}
		l.part = l.part[:0]
	}
	return len(b), nil
}

func (l *lineLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, " | ")
}

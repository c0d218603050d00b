package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/ingest/secret"
)

// embedded names the servers that are embedded in llmtap up.
func (c *checker) embedded() string {
	switch {
	case c.cfg.NATS.URL == "" && c.cfg.ClickHouse.DSN == "":
		return "NATS and ClickHouse"
	case c.cfg.NATS.URL == "":
		return "NATS"
	case c.cfg.ClickHouse.DSN == "":
		return "ClickHouse"
	}
	return ""
}

// checkProcess reports whether the process on the data directory is ready.
func (c *checker) checkProcess(ctx context.Context) {
	c.process, c.running = collector.FindRunning(c.cfg.DataDir)
	p := c.process
	switch {
	case !c.running && c.embedded() != "":
		c.fail("collector", "llmtap up, or set --config or --data-dir of the running process",
			"no llmtap runs on %s, so its embedded %s cannot be checked", c.cfg.DataDir, c.embedded())
		return
	case !c.running:
		c.ok("collector", "none runs on %s; it may run elsewhere", c.cfg.DataDir)
		return
	}
	about := fmt.Sprintf("process %d (%s), up for %s", p.PID, strings.Join(p.Roles, ", "), age(c.now.Sub(p.Since)))
	if err := c.ready(ctx); err != nil {
		c.fail("collector", "see the checks below and its log", "%s, is not ready: %v", about, err)
		return
	}
	c.ok("collector", "%s, is ready; http://%s/metrics", about, p.HTTPAddr)
}

// ready requests /readyz of the running process.
func (c *checker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	res, err := c.get(ctx, "/readyz")
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

// get requests a path of the running process. The caller closes the body.
func (c *checker) get(ctx context.Context, path string) (*http.Response, error) {
	host, port, err := net.SplitHostPort(c.process.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("parse its address: %w", err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, err
	}
	if token, err := secret.Read(c.cfg.HTTP.Token, "http.token_file", c.cfg.HTTP.TokenFile); err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultClient.Do(req)
}

package chdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// programGrace is the time after which a program that does not stop is killed. It is below stopTimeout.
const programGrace = 8 * time.Second

// runProgram runs the program clickhouse as a server on a free port, and passes the connections of ln to it, until stop is done or the
// program exits.
func runProgram(stop context.Context, cfg childConfig, ln net.Listener, ready func()) error {
	addr, err := freeAddress(stop)
	if err != nil {
		return err
	}
	file, err := writeEngineConfig(cfg, addr.Port)
	if err != nil {
		return err
	}
	defer lockThread()()
	cmd := exec.CommandContext(context.WithoutCancel(stop), cfg.Library, "server", "--config-file="+file) //nolint:gosec // the user's own ClickHouse
	cmd.Env = append(os.Environ(), "CLICKHOUSE_WATCHDOG_ENABLE=0")                                        // otherwise a second process keeps a third one running
	cmd.Dir, cmd.Stdout, cmd.Stderr = cfg.Dir, os.Stdout, os.Stderr
	cmd.SysProcAttr = sysProcAttr()
	cmd.SysProcAttr.Setpgid = false // it stays in the group of this process, which the parent ends
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cfg.Library, err)
	}
	var waited error // valid after exited is closed
	exited := make(chan struct{})
	go func() {
		waited = cmd.Wait()
		close(exited)
	}()
	serving := make(chan error, 1)
	go func() { serving <- serveProgram(stop, cfg, ln, addr.String(), ready) }()
	select {
	case <-exited:
		return fmt.Errorf("%s exited: %w", cfg.Library, cmp.Or(waited, errors.New("exit status 0")))
	case err = <-serving: // stop is done, or the program does not work
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(programGrace):
		_ = cmd.Process.Kill()
		<-exited
	}
	return err
}

// freeAddress returns an address that nothing listens on. If another process takes it before the program, the next child finds another.
func freeAddress(ctx context.Context) (*net.TCPAddr, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr), l.Close()
}

// serveProgram waits until the program at addr answers, creates the database, and passes connections to it until stop is done.
func serveProgram(stop context.Context, cfg childConfig, ln net.Listener, addr string, ready func()) error {
	for ask(stop, http.MethodGet, "http://"+addr+"/ping", "") != nil {
		select {
		case <-stop.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	// The password also proves that no other process has taken the port.
	u := url.URL{Scheme: "http", User: url.UserPassword(httpd.User, cfg.Password), Host: addr, Path: "/"}
	if err := ask(stop, http.MethodPost, u.String(), "CREATE DATABASE IF NOT EXISTS "+Database); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	defer context.AfterFunc(stop, func() { _ = ln.Close() })()
	ready()
	for {
		client, err := ln.Accept()
		switch {
		case stop.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		go forward(client.(*net.TCPConn), addr)
	}
}

// ask sends sql to the program.
func ask(ctx context.Context, method, url, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(sql))
	if err != nil {
		return err
	}
	req.Close = true // an idle connection would delay the end of the program
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}

// forward copies between a client and the program until one of them closes its connection.
func forward(client *net.TCPConn, addr string) {
	defer func() { _ = client.Close() }()
	conn, err := net.Dial("tcp4", addr) //nolint:noctx // loopback; the process ends with its connections
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	server := conn.(*net.TCPConn)
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

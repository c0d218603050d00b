// Package faults is a provider whose responses fail below HTTP, for the tests of the hooks.
package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// names are the faults, the first segments of paths. The second segment is the status: /drip/500/v1/chat/completions.
var names = []string{"ok", "drip", "stall", "reset", "close", "huge", "half-head", "chunks"}

const (
	body      = `{"error":{"message":"the provider failed"}}`
	dripEvery = 500 * time.Millisecond
	hugeBytes = 8 << 20
)

// Serve answers the requests of all connections to l until l is closed.
func Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

func serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if !answer(c, req.URL.Path) {
			return
		}
	}
}

// answer reports whether the connection stays usable.
func answer(c net.Conn, path string) bool {
	part := strings.Split(path, "/")
	if len(part) < 3 {
		return false
	}
	status, err := strconv.Atoi(part[2])
	if err != nil {
		return false
	}
	head := func(length int) string {
		return fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nX-Request-Id: req_1\r\nContent-Length: %d\r\n\r\n", status, length)
	}
	write := func(s string) bool {
		_, err := io.WriteString(c, s)
		return err == nil
	}
	half := head(len(body)) + body[:len(body)/2]
	switch part[1] {
	case "ok":
		return write(head(len(body)) + body)
	case "drip": // a byte now and then
		if !write(head(len(body))) {
			return false
		}
		for _, b := range []byte(body) {
			time.Sleep(dripEvery)
			if !write(string(b)) {
				return false
			}
		}
		return true
	case "stall":
		write(half)
		_, _ = io.Copy(io.Discard, c)
	case "reset":
		write(half)
		time.Sleep(20 * time.Millisecond) // a reset discards what the client has not read
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	case "close":
		write(half)
	case "huge":
		return write(head(hugeBytes) + strings.Repeat("x", hugeBytes))
	case "half-head":
		write(half[:40])
	case "chunks": // which begin after the headers
		if !write(strings.Replace(head(0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
		return write(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	}
	return false
}

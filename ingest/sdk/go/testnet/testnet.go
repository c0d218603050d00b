// Package testnet has what tests of connections need: ports, and connections that fail.
package testnet

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Ports are taken in order, from a random one: two tests never get the same.
var (
	firstPort = rand.N(20_000)
	ports     atomic.Int64
)

// FreePort returns a port of 127.0.0.1 on which nothing listens. Unlike the port of a closed listener, it is below the ports that
// the system assigns, so that no connection or listener of another test takes it before the caller listens.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + (firstPort+int(ports.Add(1)))%20_000
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // in use
		}
		must.Do(t, l.Close())
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// A Link is a TCP proxy to a server, which is away while the link is closed.
type Link struct {
	Addr   string
	t      testing.TB
	target string
	stop   func()       // nil while the link is closed
	pause  sync.RWMutex // locked while the link is paused
	paused bool
}

// NewLink returns a closed link to target, a host with a port. It is closed when the test ends.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	l := &Link{t: t, target: target, Addr: fmt.Sprintf("127.0.0.1:%d", FreePort(t))}
	t.Cleanup(l.Close)
	return l
}

// Open accepts connections.
func (l *Link) Open() {
	l.t.Helper()
	ln := must.Get(new(net.ListenConfig).Listen(l.t.Context(), "tcp", l.Addr))(l.t)
	accepted, conns := make(chan struct{}), make(chan net.Conn, 1000)
	var copies sync.WaitGroup
	go func() {
		defer close(accepted)
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(l.t.Context(), "tcp", l.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			conns <- in
			conns <- out
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				copies.Go(func() {
					_, _ = io.Copy(writer{l, pair[0]}, pair[1])
					_, _ = in.Close(), out.Close()
				})
			}
		}
	}()
	l.stop = func() {
		_ = ln.Close()
		<-accepted
		close(conns)
		for c := range conns {
			_ = c.Close()
		}
		if l.paused { // a test that failed
			l.Resume()
		}
		copies.Wait()
	}
}

// Close closes the connections and accepts no more. What a paused link holds is lost.
func (l *Link) Close() {
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// Pause stops transporting bytes, as a network does that is cut: connections stay open. Resume goes on.
func (l *Link) Pause() {
	l.pause.Lock()
	l.paused = true
}

// Resume transports bytes again.
func (l *Link) Resume() {
	l.paused = false
	l.pause.Unlock()
}

type writer struct {
	l *Link
	w io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	w.l.pause.RLock()
	defer w.l.pause.RUnlock()
	return w.w.Write(p)
}

// A Buffer is a bytes.Buffer that is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

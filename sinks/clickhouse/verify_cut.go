package clickhouse

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A cut breaks the connections of a client once it has sent a number of bytes: at once, or when the server answers, whose
// answer is then lost.
type cut struct {
	after      int
	loseAnswer bool

	armed atomic.Bool
	sent  atomic.Int64 // bytes since arm
	cuts  atomic.Int64
}

func (c *cut) String() string {
	if c.loseAnswer {
		return fmt.Sprintf("the answer lost after %d KiB", c.after>>10)
	}
	return fmt.Sprintf("after %d KiB", c.after>>10)
}

// arm begins to count.
func (c *cut) arm() { c.armed.Store(true) }

// happened reports whether a connection was cut.
func (c *cut) happened() bool { return c.cuts.Load() > 0 }

// due reports whether the limit is exceeded.
func (c *cut) due() bool { return c.armed.Load() && c.sent.Load() > int64(c.after) }

// dial returns a function for clickhouse.Options.DialContext.
func (c *cut) dial(timeout time.Duration) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &cutConn{conn, c}, nil
	}
}

type cutConn struct {
	net.Conn
	cut *cut
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.cut.armed.Load() {
		c.cut.sent.Add(int64(len(b)))
	}
	if !c.cut.loseAnswer && c.cut.due() {
		return 0, c.breakOff()
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.cut.loseAnswer && c.cut.due() {
		return 0, c.breakOff()
	}
	return n, err
}

// breakOff closes the connection and returns the error of a connection that the network has reset.
func (c *cutConn) breakOff() error {
	c.cut.cuts.Add(1)
	_ = c.Close()
	return &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
}

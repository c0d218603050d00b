package chdbtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// revision is the revision of the native protocol that StartNative speaks, the newest one that clickhouse-go knows.
const revision = chproto.DBMS_TCP_PROTOCOL_VERSION

// A Native serves the native protocol in front of a ClickHouse that speaks HTTP:
//
//	client ── native ──> Native ── statements and blocks over HTTP ──> engine
//
// It knows what clickhouse-go sends, and what the engine sends to the shards of a cluster for an insert. It cannot execute a
// part of a query, as SELECT from the Distributed table of a cluster requires.
type Native struct {
	Addr string
	ln   net.Listener

	refused atomic.Pointer[string]

	conns sync.WaitGroup
	mu    sync.Mutex
	open  map[net.Conn]bool // guarded by mu
}

// ListenNative returns a Native that serves once Serve is called.
func ListenNative(t *testing.T) *Native {
	t.Helper()
	ln := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	n := &Native{Addr: ln.Addr().String(), ln: ln, open: map[net.Conn]bool{}}
	t.Cleanup(n.close)
	return n
}

// StartNative returns the address of a Native in front of the ClickHouse at addr.
func StartNative(t *testing.T, addr string) string {
	t.Helper()
	n := ListenNative(t)
	n.Serve(addr)
	return n.Addr
}

// Refuse closes connections to database in the middle of an insert. "" ends it.
func (n *Native) Refuse(database string) { n.refused.Store(&database) }

// Serve serves the ClickHouse at addr until the test ends.
func (n *Native) Serve(addr string) {
	n.conns.Go(func() {
		for {
			conn, err := n.ln.Accept()
			if err != nil {
				return
			}
			n.mu.Lock()
			n.open[conn] = true
			n.mu.Unlock()
			n.conns.Go(func() {
				defer func() { _ = conn.Close() }() // the client may have closed it
				c := nativeConn{server: n, conn: conn, r: proto.NewReader(bufio.NewReader(conn)), url: "http://" + addr + "/"}
				if err := c.serve(); err != nil && !closedByClient(err) {
					fmt.Println("native protocol:", err)
				}
			})
		}
	})
}

// closedByClient reports whether err means that the other side has closed the connection.
func closedByClient(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (n *Native) close() {
	_ = n.ln.Close() // Serve ends with it, or with the process
	n.mu.Lock()
	for conn := range n.open {
		_ = conn.Close() // the client may have closed it
	}
	n.mu.Unlock()
	n.conns.Wait()
}

// A nativeConn is a connection of a client.
type nativeConn struct {
	server   *Native
	conn     net.Conn
	r        *proto.Reader
	url      string
	revision int
	hello    proto.ClientHello
	compress bool // of the current query
}

func (c *nativeConn) send(b *proto.Buffer) error {
	_, err := c.conn.Write(b.Buf)
	return err
}

// serve answers packets until the client closes the connection.
func (c *nativeConn) serve() error {
	for {
		code, err := c.r.UVarInt()
		if err != nil {
			return err
		}
		var b proto.Buffer
		switch proto.ClientCode(code) {
		case proto.ClientCodeHello:
			if err := c.handshake(&b); err != nil {
				return err
			}
		case proto.ClientCodePing:
			proto.ServerCodePong.Encode(&b)
			if err := c.send(&b); err != nil {
				return err
			}
		case proto.ClientCodeQuery:
			if err := c.query(); err != nil {
				return err
			}
		case proto.ClientTablesStatusRequest:
			if err := c.tablesStatus(&b); err != nil {
				return err
			}
		case proto.ClientCodeCancel:
			return nil
		default:
			return fmt.Errorf("unknown packet %d", code)
		}
	}
}

// handshake answers the hello of the client, like a server, which checks the login and the database then.
func (c *nativeConn) handshake(b *proto.Buffer) error {
	if err := c.hello.Decode(c.r); err != nil {
		return err
	}
	res, err := c.post("SELECT 1", nil, url.Values{})
	if err != nil {
		return c.exception(err)
	}
	res.Close()
	c.revision = min(c.hello.ProtocolVersion, revision)
	(&proto.ServerHello{Name: "ClickHouse", Major: 26, Minor: 7, Revision: revision, Timezone: "UTC", DisplayName: "chdbtest"}).EncodeAware(b, c.revision)
	if err := c.send(b); err != nil {
		return err
	}
	_, err = c.r.Str() // the quota key
	return err
}

// tablesStatus answers that the requested tables exist and are not replicated.
func (c *nativeConn) tablesStatus(b *proto.Buffer) error {
	n, err := c.r.UVarInt()
	if err != nil {
		return err
	}
	proto.ServerCodeTablesStatus.Encode(b)
	b.PutUVarInt(n)
	for range n {
		for range 2 { // database and table
			name, err := c.r.Str()
			if err != nil {
				return err
			}
			b.PutString(name)
		}
		b.PutBool(false)
	}
	return c.send(b)
}

// An exception is an error of ClickHouse.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

// exception sends err to the client.
func (c *nativeConn) exception(err error) error {
	var e *exception
	if !errors.As(err, &e) {
		return err
	}
	var b proto.Buffer
	proto.ServerCodeException.Encode(&b)
	(&proto.Exception{Code: proto.Error(e.code), Name: "DB::Exception", Message: e.text}).EncodeAware(&b, c.revision)
	return c.send(&b)
}

// post runs a statement. If body is not nil, it contains the rows of an INSERT.
func (c *nativeConn) post(stmt string, body io.Reader, params url.Values) (io.ReadCloser, error) {
	params.Set("default_format", "Native")
	if c.hello.Database != "" {
		params.Set("database", c.hello.Database)
	}
	if body == nil {
		body = strings.NewReader(stmt)
	} else {
		params.Set("query", stmt)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.url+"?"+params.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(c.hello.User, c.hello.Password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	code, _ := strconv.Atoi(res.Header.Get("X-ClickHouse-Exception-Code"))
	return nil, &exception{code, string(text)}
}

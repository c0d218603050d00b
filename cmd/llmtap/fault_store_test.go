package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Faults of ClickHouse. Events wait in the stream, memory is bounded and alerts continue.
var storeFaults = []fault{
	{
		name: "ClickHouse does not respond (SIGSTOP)", outage: true, hold: 30 * time.Second, start: readyEmbedded,
		strike: func(r *faultRun) func() { return pause(r, engineOf(r)) },
	},
	{
		name: "ClickHouse refuses connections", short: true, outage: true, hold: 30 * time.Second, start: proxied,
		strike: func(r *faultRun) func() { r.proxy.stop(); return r.proxy.start },
	},
	{
		name: "ClickHouse is slow, 16 KB/s", outage: true, hold: 30 * time.Second, start: proxied,
		strike: func(r *faultRun) func() {
			r.proxy.delay.Store(int64(time.Second / 4)) // for each 4 KB
			return func() { r.proxy.delay.Store(0) }
		},
	},
	{
		name: "ClickHouse stores, but its answers are lost", outage: true, hold: 20 * time.Second, start: proxied,
		strike: func(r *faultRun) func() {
			r.proxy.deaf.Store(true)
			return func() { r.proxy.deaf.Store(false) }
		},
	},
	{name: "ClickHouse is out of memory", outage: true, hold: 20 * time.Second, start: smallEngine, strike: exhaustMemory, check: checkExhausted},
	{name: "ClickHouse is killed in mid-insert", times: 5, start: proxied, strike: killInserting},
}

// readyEmbedded is embedded, and waits until the collector is ready.
func readyEmbedded(r *faultRun) {
	embedded(r)
	r.up().ready(r.T)
}

// smallEngine is embedded with the least memory that ClickHouse may have.
func smallEngine(r *faultRun) {
	r.configure("chdb: {memory_limit: 256MiB}")
	readyEmbedded(r)
}

// exhaustMemory runs queries that use up the memory of ClickHouse.
func exhaustMemory(r *faultRun) func() {
	ctx, cancel := context.WithCancel(r.Context())
	var queries sync.WaitGroup
	for range 6 {
		queries.Go(func() {
			s := r.up().rows()
			defer s.close()
			for ctx.Err() == nil {
				_, err := s.query(ctx, "SELECT length(groupArray(repeat(toString(number), 40))) FROM numbers(1000000)")
				if err == nil {
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	return func() { cancel(); queries.Wait() }
}

// checkExhausted fails the test unless inserts failed because of the memory limit, code 241.
func checkExhausted(r *faultRun) {
	if m := r.up().metrics(r.T); !strings.Contains(m, `llmtap_sinks_chdb_queries_total{code="241",kind="insert"}`) {
		r.Error("no insert failed because of the memory limit")
	}
}

// killInserting kills the engine while it executes an insert, which is slow for that reason.
func killInserting(r *faultRun) func() {
	engine := engineIn(r.T, os.Getpid(), r.engineDir)
	r.proxy.delay.Store(int64(20 * time.Millisecond))
	defer r.proxy.delay.Store(0)
	for end := time.Now().Add(5 * time.Minute); ; {
		res, err := r.rows.query(r.Context(), "SELECT count() FROM system.processes WHERE query_kind = 'Insert'")
		if err == nil && len(res.Rows) == 1 && res.Rows[0][0].(uint64) > 0 {
			break
		}
		if time.Now().After(end) {
			r.Fatalf("no insert is executed: %v", err)
		}
	}
	signalProcess(r.T, engine, syscall.SIGKILL)
	return nil
}

// engineIn returns the process of the ClickHouse whose data directory is dir.
func engineIn(t *testing.T, parent int, dir string) int {
	t.Helper()
	return waitChild(t, parent, "ClickHouse uses "+dir, func(proc string) bool {
		files, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
		return slices.ContainsFunc(files, func(f string) bool {
			at, _ := os.Readlink(f)
			return strings.HasPrefix(at, filepath.Join(dir, "data")+"/")
		})
	})
}

// clickHouseDir returns the directory of the embedded ClickHouse.
func clickHouseDir(u *upProcess) string { return config.ClickHouseDir(u.dir) }

// A tcpProxy forwards connections between start and stop.
type tcpProxy struct {
	t            *testing.T
	target, addr string
	delay        atomic.Int64                      // nanoseconds for each chunk of proxyChunk bytes
	deaf         atomic.Bool                       // closes a connection instead of forwarding an answer
	rewrite      func(toServer net.Conn) io.Writer // wraps connections to the target; nil: none

	mu    sync.Mutex // guards the rest
	l     net.Listener
	conns []net.Conn
}

const proxyChunk = 4 << 10

// startProxy starts a proxy on a free port of loopback, which stops when the test ends.
func startProxy(t *testing.T, target string) *tcpProxy {
	t.Helper()
	p := &tcpProxy{t: t, target: target, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *tcpProxy) start() {
	l := must.Get(net.Listen("tcp", p.addr))(p.t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l = l
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.target)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			server := io.Writer(out)
			if p.rewrite != nil {
				server = p.rewrite(out)
			}
			go p.forward(server, in, out, false)
			go p.forward(in, out, in, true)
		}
	}()
}

// forward copies from one end of a connection to the other, and then closes both.
func (p *tcpProxy) forward(to io.Writer, from, other net.Conn, answers bool) {
	defer from.Close()
	defer other.Close()
	for chunk := make([]byte, proxyChunk); ; {
		n, err := from.Read(chunk)
		if n > 0 && answers && p.deaf.Load() {
			return
		}
		if d := p.delay.Load(); n > 0 && d > 0 {
			time.Sleep(time.Duration(d))
		}
		if _, werr := to.Write(chunk[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *tcpProxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// An rssWatch samples the resident memory of a process, in bytes.
type rssWatch struct{ last, peak atomic.Int64 }

func watchRSS(t *testing.T, pid int) *rssWatch {
	w := &rssWatch{}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	sample := func() {
		kb, err := strconv.ParseInt(procField(dir, "VmRSS"), 10, 64)
		if err == nil {
			w.last.Store(kb << 10)
			w.peak.Store(max(w.peak.Load(), kb<<10))
		}
	}
	sample()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-tick.C:
				sample()
			case <-done:
				tick.Stop()
				return
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait() })
	return w
}

package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	outage     = flag.Duration("outage", 4*time.Second, "duration of the ClickHouse outage of TestStoreOutage")
	outageRate = flag.Int("outage-rate", 100, "exchanges per second of the agents")
)

// maxOutageRSS is the memory limit of a collector with embedded NATS during an outage and while it catches up.
const maxOutageRSS = 400 << 20

// During an outage of ClickHouse, the backlog stays in the stream, memory stays constant and alerts fire; afterwards the
// backlog drains and every exchange is stored once.
//
//	go test ./cmd/llmtap -run TestStoreOutage -outage 10m -v -timeout 40m
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	outages := []struct {
		name  string
		start func(t *testing.T) (up *upProcess, rows *store, stop, resume func())
	}{
		{"stopped (SIGSTOP)", stoppedStore},
		{"refuses connections", refusingStore},
	}
	rows := make([][]string, len(outages))
	t.Cleanup(func() {
		head := []string{"ClickHouse", "outage", "backlog", "RSS start", "peak", "drained in", "acked", "stored", "missing", "duplicates", "differences", "in tallies", "alerts during the outage"}
		t.Log("\n" + columns(append([][]string{head}, rows...)))
	})
	for i, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			up, store, stop, resume := o.start(t)
			rows[i] = append([]string{o.name, outage.String()}, storeOutage(t, up, store, stop, resume)...)
		})
	}
}

// storeOutage runs one outage and returns its row of the table.
func storeOutage(t *testing.T, up *upProcess, rows *store, stop, resume func()) []string {
	t.Cleanup(rows.close)
	up.ready(t)
	rss := watchRSS(t, up.cmd.Process.Pid)
	start := rss.last.Load()
	stop()
	load := startAgents(t, up.url(), *outageRate)
	time.Sleep(*outage)
	fired := firing(up.stderr.String())
	backlog := load.count()
	resumed := time.Now()
	resume()
	drained := rows.waitNewer(t, resumed, time.Minute+*outage)
	result := auditStore(t, up.url(), rows, load.stop(t))
	result.check(t)
	peak := rss.peak.Load()
	if peak > maxOutageRSS {
		t.Errorf("peak memory of the collector: %d MB", peak>>20)
	}
	if *outage >= time.Minute && len(fired) == 0 {
		t.Errorf("no alert fired during the outage\n%s", up.stderr.String())
	}
	return []string{
		fmt.Sprint(backlog), fmt.Sprintf("%d MB", start>>20), fmt.Sprintf("%d MB", peak>>20), fmt.Sprintf("%.1f s", drained.Seconds()),
		fmt.Sprint(result.acked), fmt.Sprint(result.stored), fmt.Sprint(result.missing), fmt.Sprint(result.duplicates),
		fmt.Sprint(len(result.differences)), fmt.Sprint(result.tallied), strings.Join(fired, ", "),
	}
}

// stoppedStore returns a collector whose embedded ClickHouse accepts connections and does not respond.
func stoppedStore(t *testing.T) (*upProcess, *store, func(), func()) {
	up := startUp(t)
	child := 0
	stop := func() {
		child = clickhouseChild(t, up.cmd.Process.Pid)
		signalProcess(t, child, syscall.SIGSTOP)
	}
	return up, up.rows(), stop, func() { signalProcess(t, child, syscall.SIGCONT) }
}

// refusingStore returns a collector whose ClickHouse refuses connections.
func refusingStore(t *testing.T) (*upProcess, *store, func(), func()) {
	_, dsn := servers(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &tcpProxy{t: t, target: u.Host, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	p.start()
	t.Cleanup(p.stop)
	u.Host = p.addr
	direct := &store{dsn: func() (string, bool) { return dsn, true }}
	return startUp(t, "--clickhouse-dsn", u.String()), direct, p.stop, p.start
}

// A tcpProxy forwards connections between start and stop.
type tcpProxy struct {
	t            *testing.T
	target, addr string

	mu    sync.Mutex // guards the rest
	l     net.Listener
	conns []net.Conn
}

func (p *tcpProxy) start() {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
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
			for _, dir := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(dir[0], dir[1])
					in.Close()
					out.Close()
				}()
			}
		}
	}()
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

var firingLine = regexp.MustCompile(`msg=alert state=firing alert=(\w+).* service=(\S+) stage=(\S+)`)

// firing returns the alerts in the log of a collector.
func firing(log string) (names []string) {
	for _, m := range firingLine.FindAllStringSubmatch(log, -1) {
		if name := m[1] + " " + m[2] + "/" + m[3]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

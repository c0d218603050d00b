package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// natsCommand runs a nats-server in the test binary until stdin ends. It prints a line when it accepts clients.
const natsCommand = "nats-server"

type natsConfig struct {
	Name, Host, Dir string
	Port            int
	ClusterPort     int // 0: a single server
	Routes          []string
}

// natsMain runs the server and returns the exit code.
func natsMain() int {
	var in natsConfig
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	opts := &server.Options{
		ServerName: in.Name, Host: in.Host, Port: in.Port, StoreDir: in.Dir, JetStream: true, MaxPayload: 8 << 20, NoSigs: true, LogFile: in.Dir + ".log",
	}
	if in.ClusterPort > 0 {
		opts.Cluster = server.ClusterOpts{Name: "llmtap", Host: in.Host, Port: in.ClusterPort}
		opts.Routes = server.RoutesFromStr(strings.Join(in.Routes, ","))
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	srv.ConfigureLogger()
	srv.Start()
	for !srv.ReadyForConnections(time.Second) {
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	srv.Shutdown()
	srv.WaitForShutdown()
	return 0
}

// A natsProcess is a nats-server that a test stops, kills, pauses and starts again.
type natsProcess struct {
	natsConfig
	network *namespace // nil: that of the test
	cmd     *exec.Cmd  // nil while it does not run
	stdin   io.Closer
}

// startNATSProcess runs one server until the test ends.
func startNATSProcess(t *testing.T) *natsProcess {
	t.Helper()
	n := &natsProcess{natsConfig: natsConfig{Name: "nats", Host: "127.0.0.1", Port: freePort(t), Dir: filepath.Join(t.TempDir(), "nats")}}
	t.Cleanup(func() { n.kill(t) })
	n.start(t)
	n.awaitReady(t)
	return n
}

func (n *natsProcess) url() string {
	return "nats://" + net.JoinHostPort(n.Host, strconv.Itoa(n.Port))
}

// start starts the process. It does not wait until the server accepts clients.
func (n *natsProcess) start(t *testing.T) {
	t.Helper()
	args := []string{os.Args[0], natsCommand}
	if n.network != nil {
		args = append([]string{"ip", "netns", "exec", n.network.name}, args...)
	}
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Stderr = os.Stderr
	stdin, err := n.cmd.StdinPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	must.Do(t, err)
	n.stdin = stdin
	must.Do(t, json.NewEncoder(stdin).Encode(n.natsConfig))
}

// awaitReady waits until the server greets clients.
func (n *natsProcess) awaitReady(t *testing.T) {
	t.Helper()
	must.Wait(t, n.Name+" accepts clients", func() bool {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(n.Host, strconv.Itoa(n.Port)), time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.HasPrefix(line, "INFO ")
	}, func() any {
		log, _ := os.ReadFile(n.Dir + ".log")
		return string(log)
	})
}

// stop stops the server as an operator does.
func (n *natsProcess) stop(t *testing.T) {
	t.Helper()
	n.stdin.Close()
	must.Do(t, n.cmd.Wait(), "stop", n.Name)
	n.cmd = nil
}

// kill kills the server with SIGKILL, if it runs.
func (n *natsProcess) kill(t *testing.T) {
	t.Helper()
	if n.cmd == nil {
		return
	}
	must.Do(t, n.cmd.Process.Kill())
	_ = n.cmd.Wait() // its error is the kill
	n.stdin.Close()
	n.cmd = nil
}

// replace starts the killed server again with an empty disk.
func (n *natsProcess) replace(t *testing.T) {
	t.Helper()
	must.Do(t, os.RemoveAll(n.Dir))
	n.start(t)
}

// A natsCluster is three servers with JetStream.
type natsCluster struct {
	nodes []*natsProcess
	js    natsjs.JetStream
}

// startNATSCluster runs a cluster until the test ends: each node in a network namespace of its own, or all on loopback.
func startNATSCluster(t *testing.T, apart bool) *natsCluster {
	t.Helper()
	c := &natsCluster{}
	dir := t.TempDir()
	var spaces []*namespace
	if apart {
		spaces = namespaces(t, 3)
	}
	var routes []string
	for i := range 3 {
		n := &natsProcess{natsConfig: natsConfig{Name: fmt.Sprintf("node-%d", i+1), Host: "127.0.0.1", Port: freePort(t), ClusterPort: freePort(t)}}
		if n.Dir = filepath.Join(dir, n.Name); apart {
			n.network, n.Host = spaces[i], spaces[i].addr
		}
		routes = append(routes, "nats://"+net.JoinHostPort(n.Host, strconv.Itoa(n.ClusterPort)))
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.Routes = routes
		t.Cleanup(func() { n.kill(t) })
		n.start(t)
	}
	for _, n := range c.nodes {
		n.awaitReady(t)
	}
	nc := must.Get(nats.Connect(c.url(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second)))(t)
	t.Cleanup(nc.Close)
	c.js = must.Get(natsjs.New(nc))(t)
	return c
}

// url returns the URLs of the nodes.
func (c *natsCluster) url() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.url())
	}
	return strings.Join(all, ",")
}

// leader returns the node that leads the event stream.
func (c *natsCluster) leader(t *testing.T) *natsProcess {
	t.Helper()
	leader := -1
	must.Wait(t, "the stream has a leader", func() bool {
		s, err := c.js.Stream(t.Context(), event.StreamEvents)
		if err == nil && s.CachedInfo().Cluster != nil {
			leader = slices.IndexFunc(c.nodes, func(n *natsProcess) bool { return n.Name == s.CachedInfo().Cluster.Leader })
		}
		return leader >= 0
	})
	return c.nodes[leader]
}

// awaitReplicas waits until all replicas of the streams are current.
func (c *natsCluster) awaitReplicas(t *testing.T) {
	t.Helper()
	must.Wait(t, "all replicas are current", func() bool { return c.behind(t) == "" }, func() any { return c.behind(t) })
}

// behind describes the first replica that is not current, or "".
func (c *natsCluster) behind(t *testing.T) string {
	for _, name := range []string{event.StreamEvents, event.StreamTally, "KV_" + event.BucketCheckpoint, "KV_" + event.BucketLedger, "KV_" + event.BucketAlerts} {
		s, err := c.js.Stream(t.Context(), name)
		if err != nil {
			return fmt.Sprintf("stream %s: %v", name, err)
		}
		info := s.CachedInfo().Cluster
		if info == nil || info.Leader == "" || len(info.Replicas) != 2 {
			return fmt.Sprintf("stream %s has no leader or no replicas: %+v", name, info)
		}
		for _, r := range info.Replicas {
			if !r.Current || r.Offline {
				return fmt.Sprintf("replica %s of stream %s is not current", r.Name, name)
			}
		}
	}
	return ""
}

// A namespace is a network namespace, whose only link can be cut.
type namespace struct {
	name string
	link string // its end in the namespace of the test
	addr string
}

var namespaceSets atomic.Int64

// namespaces creates network namespaces that reach each other and the test, and nothing else. They are removed when the test
// ends. It requires root.
func namespaces(t *testing.T, n int) (all []*namespace) {
	t.Helper()
	// Names of links have at most 15 bytes. The addresses are those reserved for benchmarks (RFC 2544).
	id := os.Getpid()%100_000*10 + int(namespaceSets.Add(1)%10)
	bridge, subnet := fmt.Sprintf("llt%db", id), fmt.Sprintf("198.18.%d.", id%250)
	if err := runIP("link", "add", bridge, "type", "bridge"); err != nil {
		cannot(t, fmt.Sprintf("network namespaces require root: %v", err))
	}
	t.Cleanup(func() { cleanUpIP(t, "link", "del", bridge) })
	mustIP(t, "addr", "add", subnet+"1/24", "dev", bridge)
	mustIP(t, "link", "set", bridge, "up")
	for i := range n {
		s := &namespace{name: fmt.Sprintf("llt%dn%d", id, i), link: fmt.Sprintf("llt%dv%d", id, i), addr: subnet + strconv.Itoa(10+i)}
		mustIP(t, "netns", "add", s.name)
		t.Cleanup(func() { cleanUpIP(t, "netns", "del", s.name) }) // removes the link too
		mustIP(t, "link", "add", s.link, "type", "veth", "peer", "name", "eth0", "netns", s.name)
		mustIP(t, "link", "set", s.link, "master", bridge)
		mustIP(t, "-n", s.name, "addr", "add", s.addr+"/24", "dev", "eth0")
		mustIP(t, "-n", s.name, "link", "set", "lo", "up")
		mustIP(t, "-n", s.name, "link", "set", "eth0", "up")
		s.join(t)
		all = append(all, s)
	}
	return all
}

// cut drops all packets to and from the namespace; connections are not told.
func (s *namespace) cut(t *testing.T) { mustIP(t, "link", "set", s.link, "down") }

// join ends a cut.
func (s *namespace) join(t *testing.T) { mustIP(t, "link", "set", s.link, "up") }

func runIP(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func mustIP(t *testing.T, args ...string) {
	t.Helper()
	must.Do(t, runIP(args...))
}

func cleanUpIP(t *testing.T, args ...string) {
	must.Do(t, runIP(args...))
}

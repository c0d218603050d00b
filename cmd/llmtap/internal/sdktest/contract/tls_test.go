package contract

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A tlsTest has the files of servers and clients, and agents that call a provider.
type tlsTest struct {
	dir       string
	url       string // of the provider
	languages map[string]agent
}

func newTLSTest(t *testing.T) *tlsTest {
	slowtest.SkipShort(t, "slow, and other tests cover it for the race detector")
	url, host := startChat(t)
	t.Setenv(event.EnvHosts, host)
	return &tlsTest{dir: t.TempDir(), url: url, languages: agents(t, host)}
}

// file returns the path of a file of the test.
func (x *tlsTest) file(name string) string { return x.dir + "/" + name }

// with sets how agents connect: the files for TLS without a directory, or "".
func (x *tlsTest) with(t *testing.T, ca, cert string) {
	path := func(name, ending string) string {
		if name == "" {
			return ""
		}
		return x.file(name + ending)
	}
	t.Setenv(event.EnvCAFile, path(ca, ".pem"))
	t.Setenv(event.EnvCertFile, path(cert, ".pem"))
	t.Setenv(event.EnvKeyFile, path(cert, ".key"))
}

// stored runs an agent of each language, whose call is stored in n.
func (x *tlsTest) stored(t *testing.T, name string, n *natsd, natsURL string) {
	t.Helper()
	x.each(t, name, natsURL, "", func(t *testing.T, log string) {
		must.Equal(t, log, "", "log")
	})
	must.Equal(t, len(n.newMessages(t)), 2*len(x.languages), "%s: events are stored", name)
}

// refused runs an agent of each language, which says why it cannot publish.
func (x *tlsTest) refused(t *testing.T, name string, n *natsd, natsURL, fix string) {
	t.Helper()
	x.each(t, name, natsURL, "calls are kept in memory", func(t *testing.T, log string) {
		must.Contain(t, log, fix, "log")
	})
	must.Equal(t, len(n.newMessages(t)), 0, "%s: events are stored", name)
}

// each runs an agent of each language at once, with a call, and passes its log to check.
func (x *tlsTest) each(t *testing.T, name, natsURL, until string, check func(t *testing.T, log string)) {
	t.Run(name, func(t *testing.T) {
		for language, run := range x.languages {
			t.Run(language, func(t *testing.T) {
				t.Parallel()
				log, _ := run(t, natsURL, x.url, 1, until)
				check(t, log)
			})
		}
	})
}

// recovers runs an agent of each language, whose key becomes valid while its call waits.
func (x *tlsTest) recovers(t *testing.T, n *natsd, natsURL string) {
	t.Helper()
	file := x.file("renewed.key")
	key := must.Get(os.ReadFile(x.file("agent.key")))(t)
	cert := must.Get(os.ReadFile(x.file("agent.pem")))(t)
	write := func(path string, text []byte) {
		must.Do(t, os.WriteFile(path, text, 0o600))
	}
	write(x.file("renewed.pem"), cert)
	x.with(t, "ca", "renewed")
	for language, run := range x.languages {
		// On a busy machine an agent may need longer until it reads the key for the first time, and then has nothing to log.
		log := ""
		for wait := 2 * time.Second; log == "" && wait <= 16*time.Second; wait *= 2 {
			write(file, []byte("no key"))
			renewed := time.AfterFunc(wait, func() { write(file, key) })
			log, _ = run(t, natsURL, x.url, 1, "")
			renewed.Stop()
			must.Equal(t, len(n.newMessages(t)), 2, "renewed key, %s: events are stored, log %s", language, log)
		}
		must.Contain(t, log, "calls are kept in memory", "renewed key", language, "log")
	}
}

// serve returns a running server that addresses as host in its certificate, and requires one of clients if mutual is set.
func (x *tlsTest) serve(t *testing.T, ca *certstest.CA, host string, mutual, plainToo bool) *natsd {
	t.Helper()
	files := certs.Server{}
	files.CertFile, files.KeyFile = ca.Issue(t, x.dir, strings.ReplaceAll(t.Name(), "/", "-")+host, host)
	if mutual {
		files.ClientCAFile = ca.File
	}
	cfg := must.Get(files.Config(quiet))(t)
	n := newNATS(t)
	n.tls = func(o *server.Options) {
		o.TLS, o.TLSConfig, o.TLSTimeout, o.AllowNonTLS = true, cfg, 5, plainToo
	}
	n.start(t)
	return n
}

// encrypted returns an error unless all connections of agents to n used TLS.
func encrypted(n *natsd) error {
	z, err := n.server.Connz(&server.ConnzOptions{State: server.ConnClosed})
	if err != nil {
		return err
	}
	for _, c := range z.Conns {
		if strings.HasPrefix(c.Name, "llmtap-") && c.TLSVersion == "" {
			return fmt.Errorf("%s has connected without TLS", c.Name)
		}
	}
	return nil
}

// Hooks publish to servers whose certificate is that of the address and issued by their CA, and to no others.
func TestTLS(t *testing.T) {
	x := newTLSTest(t)
	ca := certstest.NewCA(t, x.dir, "ca")
	ca.Issue(t, x.dir, "agent", "")

	n := x.serve(t, ca, "127.0.0.1", false, false)
	address := "agent:agent@" + n.address()
	x.with(t, "ca", "")
	x.stored(t, "TLS", n, "tls://"+address)
	x.stored(t, "TLS of the CA's file", n, "nats://"+address)
	x.with(t, "", "")
	x.refused(t, "unknown CA", n, "tls://"+address, "LLMTAP_CA_FILE")
	certstest.NewCA(t, x.dir, "other")
	x.with(t, "other", "")
	x.refused(t, "another CA", n, "tls://"+address, "LLMTAP_CA_FILE")
	x.with(t, "missing", "")
	x.refused(t, "missing file", n, "tls://"+address, "missing.pem")

	named := x.serve(t, ca, "localhost", false, false)
	x.with(t, "ca", "")
	x.refused(t, "certificate of another address", named, "tls://agent:agent@"+named.address(), "LLMTAP_CA_FILE")
	x.stored(t, "certificate of a name", named, strings.Replace("tls://agent:agent@"+named.address(), "127.0.0.1", "localhost", 1))

	both := x.serve(t, ca, "127.0.0.1", false, true)
	x.stored(t, "server that permits plain connections", both, "tls://agent:agent@"+both.address())
	must.Do(t, encrypted(both))

	mutual := x.serve(t, ca, "127.0.0.1", true, false)
	address = "agent:agent@" + mutual.address()
	x.refused(t, "no client certificate", mutual, "tls://"+address, "") // the server's alert may be lost with the connection
	x.with(t, "ca", "agent")
	x.stored(t, "client certificate", mutual, "tls://"+address)
	x.recovers(t, mutual, "tls://"+address)

	plain := newNATS(t)
	plain.start(t)
	x.refused(t, "no TLS", plain, "nats://agent:agent@"+plain.address(), "LLMTAP_CA_FILE")
}

func TestEndpointTLS(t *testing.T) {
	x := newTLSTest(t)
	ca := certstest.NewCA(t, x.dir, "ca")
	ca.Issue(t, x.dir, "agent", "")
	n := newNATS(t)
	n.start(t)
	files := certs.Server{ClientCAFile: ca.File}
	files.CertFile, files.KeyFile = ca.Issue(t, x.dir, "receiver", "127.0.0.1")
	srv := httptest.NewUnstartedServer(receiver(t, n))
	srv.Config.ErrorLog = quietLog
	cfg := must.Get(files.Config(quiet))(t)
	srv.Listener = tls.NewListener(srv.Listener, cfg)
	srv.Start() // with the certificate of the test, not that of StartTLS
	t.Cleanup(srv.Close)
	t.Setenv(event.EnvEndpoint, strings.Replace(srv.URL, "http://", "https://", 1))

	x.with(t, "ca", "agent")
	x.stored(t, "client certificate", n, "")
	x.recovers(t, n, "")
	x.with(t, "ca", "")
	x.refused(t, "no client certificate", n, "", "") // as above
	x.with(t, "", "")
	x.refused(t, "unknown CA", n, "", "LLMTAP_CA_FILE")
	x.with(t, "missing", "")
	x.refused(t, "missing file", n, "", "missing.pem")
}

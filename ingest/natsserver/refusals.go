package natsserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Reasons for refusing a client. The first two are also values of the label reason.
const (
	ReasonNoToken    = "no token"
	ReasonWrongToken = "wrong token"
	ReasonNoLogin    = "not a NATS client" // it sent something other than a login
)

const (
	maxRefusals  = 256    // clients that are remembered; if there are more, the one refused longest ago is forgotten
	maxName      = 64     // bytes of a client's name
	maxClosed    = 10_000 // closed connections that nats-server remembers
	minLogPeriod = 1 * time.Minute
	maxLogPeriod = 1 * time.Hour
)

// disconnects are the states of closed connections that indicate a problem of the client or its network.
var disconnects = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range []server.ClosedState{
		server.AuthenticationTimeout, server.TLSHandshakeError, server.ParseError, server.ProtocolViolation, server.StaleConnection,
		server.MaxConnectionsExceeded, server.MaxPayloadExceeded, server.SlowConsumerPendingBytes, server.SlowConsumerWriteDeadline,
	} {
		m[s.String()] = true
	}
	return m
}()

// A Refusal describes connections from one address that the server refused or closed, for one reason.
type Refusal struct {
	Address string    `json:"address"`          // IP address
	Client  string    `json:"client,omitempty"` // name of the client, such as llmtap-python/checkout
	Reason  string    `json:"reason"`           // a Reason, or the state of a closed connection in nats-server's words
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

// From returns the address and the name of the client.
func (r *Refusal) From() string {
	if r.Client == "" {
		return r.Address
	}
	return r.Address + " (" + r.Client + ")"
}

// Verb returns what the server did with the connections: refused or closed.
func (r *Refusal) Verb() string {
	switch r.Reason {
	case ReasonNoToken, ReasonWrongToken, ReasonNoLogin:
		return "refused"
	}
	return "closed"
}

// A guard checks the token of clients, gives them permissions, and counts and logs refused ones. It is a server.Authentication.
type guard struct {
	own       secret.Tokens                  // of llmtap on this machine
	collector secret.Tokens                  // of llmtap on others
	hooks     secret.Tokens                  // of hooks of all services
	services  map[string]secret.Tokens       // of hooks of one service, by the token of the service in subjects
	account   atomic.Pointer[server.Account] // of hooks; nil until the server is ready
	log       *slog.Logger
	refused   *prometheus.CounterVec // by reason

	mu      sync.Mutex // guards clients
	clients map[refusalKey]*refusedClient
}

type refusalKey struct{ address, client, reason string }

type refusedClient struct {
	Refusal
	nextLog time.Time
	period  time.Duration // between nextLog and the log after it
}

// newGuard returns the guard of a server. With the token own, clients may do everything; if it is "", so may all that are accepted.
func newGuard(cfg *Config, own string) (*guard, error) {
	g := &guard{
		services: make(map[string]secret.Tokens), log: cfg.Logger, clients: make(map[refusalKey]*refusedClient),
		refused: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_nats_refused_connections_total", Help: "Connections that the embedded NATS refused, by reason.",
		}, []string{"reason"}),
	}
	var errs [3]error
	g.own, _ = secret.ReadTokens(own, "", "") // its own text is no hash
	g.hooks, errs[0] = secret.ReadTokens(cfg.Token, "token_file", cfg.TokenFile)
	g.collector, errs[1] = secret.ReadTokens(cfg.CollectorToken, "collector_token_file", cfg.CollectorTokenFile)
	for service, tokens := range cfg.ServiceTokens {
		var err error
		if g.services[event.ServiceToken(service)], err = secret.ReadTokens(tokens, "service_tokens."+service, ""); err != nil {
			errs[2] = err
		}
	}
	return g, errors.Join(errs[:]...)
}

// needed reports whether the server must ask the guard. Otherwise all clients may do everything.
func (g *guard) needed() bool { return g.own.Required() || g.hooks.Required() || len(g.services) > 0 }

// Check implements server.Authentication.
func (g *guard) Check(c server.ClientAuthentication) bool {
	sent := c.GetOpts().Token
	service, ok := g.service(sent)
	account := g.hooksAccount()
	switch {
	case !g.own.Required(): // a test, or a server that only asks for a token
		if g.hooks.Accept(sent) {
			return true
		}
	case g.own.Accept(sent) || g.collector.Accept(sent):
		return true
	case account == nil:
		return false
	case ok:
		c.RegisterUser(&server.User{Username: "hooks of " + service, Account: account, Permissions: hookPermissions(service)})
		return true
	case g.hooks.Accept(sent), !g.hooks.Required() && len(g.services) == 0:
		c.RegisterUser(&server.User{Username: "hooks", Account: account, Permissions: hookPermissions("*")})
		return true
	}
	reason := ReasonWrongToken
	if sent == "" {
		reason = ReasonNoToken
	}
	g.refuse(refusalKey{address(c.RemoteAddress()), clientName(c.GetOpts().Name), reason}, time.Now())
	return false
}

// hooksAccount returns the account of hooks. A client that connects while the server starts waits for it.
func (g *guard) hooksAccount() *server.Account {
	for range 1000 {
		if a := g.account.Load(); a != nil {
			return a
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// service returns the service whose token was sent. Its time depends only on the number of services.
func (g *guard) service(sent string) (service string, ok bool) {
	for name, tokens := range g.services {
		if tokens.Accept(sent) {
			service, ok = name, true
		}
	}
	return service, ok
}

// addAccount creates the account of hooks, which imports the subjects of events. Permissions would not suffice: JetStream sends the
// acknowledgement of an event to the subject that the hook chose, such as that of a key of a bucket, which stores it. In an account of
// its own, nobody listens there.
func (g *guard) addAccount(n *server.Server) error {
	a, err := n.RegisterAccount("HOOKS")
	if err == nil {
		err = n.GlobalAccount().AddServiceExport(event.SubjectAll, nil)
	}
	if err == nil {
		err = a.AddServiceImport(n.GlobalAccount(), event.SubjectAll, event.SubjectAll)
	}
	if err != nil {
		return fmt.Errorf("create the account of hooks: %w", err)
	}
	g.account.Store(a)
	return nil
}

// hookPermissions returns what hooks of a service may do in their account: publish its events, and receive the acknowledgements.
func hookPermissions(service string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{event.SubjectPrefix + "*." + service + ".*"}},
		Subscribe: &server.SubjectPermission{Allow: []string{nats.InboxPrefix + ">"}},
	}
}

func address(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return "unknown"
}

// clientName returns the printable characters of a name that a client has chosen.
func clientName(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxName)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// refuse counts a refused connection, and logs it unless it was logged recently.
func (g *guard) refuse(k refusalKey, now time.Time) {
	g.refused.WithLabelValues(strings.ReplaceAll(k.reason, " ", "_")).Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.clients[k]
	if c == nil {
		if len(g.clients) >= maxRefusals {
			oldest := slices.MinFunc(slices.Collect(maps.Values(g.clients)), byLast)
			delete(g.clients, refusalKey{oldest.Address, oldest.Client, oldest.Reason})
		}
		c = &refusedClient{Refusal: Refusal{Address: k.address, Client: k.client, Reason: k.reason, First: now}, nextLog: now, period: minLogPeriod}
		g.clients[k] = c
	}
	c.Count++
	c.Last = now
	if now.Before(c.nextLog) {
		return
	}
	c.nextLog, c.period = now.Add(c.period), min(2*c.period, maxLogPeriod)
	g.log.Warn("NATS refused a client", "address", c.Address, "client", c.Client, "reason", c.Reason, "connections", c.Count,
		"fix", "set LLMTAP_NATS_URL=nats://TOKEN@HOST:PORT there, with the token of nats_server.token")
}

func byLast(a, b *refusedClient) int { return a.Last.Compare(b.Last) }

// since returns the clients that were refused after t.
func (g *guard) since(t time.Time) (rs []Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clients {
		if c.Last.After(t) {
			rs = append(rs, c.Refusal)
		}
	}
	return rs
}

// Refused returns the clients that the server refused or disconnected after t, the latest first.
func (s *Server) Refused(t time.Time) []Refusal {
	rs := append(s.guard.since(t), s.disconnected(t)...)
	slices.SortFunc(rs, func(a, b Refusal) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Reason, b.Reason))
	})
	return rs
}

// disconnected returns the clients whose connection the server closed after t.
func (s *Server) disconnected(t time.Time) (rs []Refusal) {
	if !s.mu.TryLock() {
		return nil // the server is starting or stopping
	}
	defer s.mu.Unlock()
	if s.nats == nil || s.closed {
		return nil
	}
	z, err := s.nats.Connz(&server.ConnzOptions{State: server.ConnClosed, Sort: server.ByStop, Limit: maxClosed})
	if err != nil {
		return nil // only invalid options are errors
	}
	index := make(map[refusalKey]int)
	for _, c := range z.Conns { // latest first
		if c.Stop == nil || !c.Stop.After(t) {
			continue
		}
		k := refusalKey{c.IP, clientName(c.Name), strings.ToLower(c.Reason)}
		switch {
		case disconnects[c.Reason]:
		case c.Reason == server.AuthenticationViolation.String() && c.Lang == "":
			k.reason = ReasonNoLogin // the guard counts the others
		default:
			continue
		}
		i, ok := index[k]
		if !ok {
			i = len(rs)
			index[k] = i
			rs = append(rs, Refusal{Address: k.address, Client: k.client, Reason: k.reason, Last: *c.Stop})
		}
		rs[i].Count++
		rs[i].First = *c.Stop
	}
	return rs
}

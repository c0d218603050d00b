package natsserver

import (
	"cmp"
	"crypto/subtle"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// A guard checks the token of clients, and counts and logs refused ones. It is a server.Authentication.
type guard struct {
	token   []byte
	log     *slog.Logger
	refused *prometheus.CounterVec // by reason

	mu      sync.Mutex // guards clients
	clients map[refusalKey]*refusedClient
}

type refusalKey struct{ address, client, reason string }

type refusedClient struct {
	Refusal
	nextLog time.Time
	period  time.Duration // between nextLog and the log after it
}

func newGuard(token string, log *slog.Logger, reg prometheus.Registerer) *guard {
	return &guard{
		token: []byte(token), log: log, clients: make(map[refusalKey]*refusedClient),
		refused: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "llmtap_ingest_nats_refused_connections_total", Help: "Connections that the embedded NATS refused, by reason.",
		}, []string{"reason"}),
	}
}

// Check implements server.Authentication.
func (g *guard) Check(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	if subtle.ConstantTimeCompare([]byte(opts.Token), g.token) == 1 {
		return true
	}
	reason := ReasonWrongToken
	if opts.Token == "" {
		reason = ReasonNoToken
	}
	g.refuse(refusalKey{address(c.RemoteAddress()), clientName(opts.Name), reason}, time.Now())
	return false
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

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// maxClients is the maximum number of refused clients that are listed.
const maxClients = 5

// checkClients reports the clients that the embedded NATS refused or disconnected in the last hour.
func (c *checker) checkClients(ctx context.Context) {
	if c.cfg.NATS.URL != "" {
		c.ok("clients", "not checked: only the log of the NATS server and /connz?state=closed of its monitoring port show refused clients and denied publishes")
		return
	}
	refused, err := c.refused(ctx)
	if err != nil {
		c.warn("clients", "see the log of llmtap up", "cannot list the clients that NATS refused: %v", err)
		return
	}
	for _, r := range refused[:min(len(refused), maxClients)] {
		c.warn("clients", c.clientFix(r.Reason), "%s", c.describe(&r))
	}
	if more := len(refused) - maxClients; more > 0 {
		c.warn("clients", "see the log of llmtap up", "%s more", quantity.Plural(more, "refused client"))
	}
	if len(refused) == 0 {
		c.ok("clients", "none refused in the last hour")
	}
}

// refused requests the refused clients from the running process.
func (c *checker) refused(ctx context.Context) (refused []natsserver.Refusal, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	res, err := c.get(ctx, collector.RefusedPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // used for reading only
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers HTTP %d", c.process.URL(), res.StatusCode)
	}
	return refused, json.NewDecoder(res.Body).Decode(&refused)
}

// describe returns, for example, "3 connections from 10.0.0.7 (llmtap-go/checkout) refused, the last 4s ago: wrong token".
func (c *checker) describe(r *natsserver.Refusal) string {
	ago := func(what string) string { return what + age(max(c.now.Sub(r.Last), 0)) + " ago" }
	when := ago("")
	if r.Count > 1 {
		when = fmt.Sprintf("in %s, %s", age(max(r.Last.Sub(r.First), 0)), ago("the last "))
	}
	return fmt.Sprintf("%s from %s %s %s: %s", quantity.Plural(r.Count, "connection"), r.From(), r.Verb(), when, r.Reason)
}

func isLogin(reason string) bool {
	return reason == natsserver.ReasonNoToken || reason == natsserver.ReasonWrongToken
}

// clientFix returns what to do about a refused or disconnected client.
func (c *checker) clientFix(reason string) string {
	switch {
	case isLogin(reason):
		port := "4222"
		if u, err := url.Parse(c.process.NATSURL); err == nil {
			if _, p, err := net.SplitHostPort(u.Host); err == nil {
				port = p
			}
		}
		return fmt.Sprintf("for a hook, set %s=nats://TOKEN@HOST:%s there, with the token of nats_server.token", event.EnvNATSURL, port)
	case strings.Contains(reason, "tls"):
		return "for a hook, use tls:// in " + event.EnvNATSURL + ", with the CA of tls.cert_file in " + event.EnvCAFile + "; without tls.cert_file here, use nats://"
	case reason == natsserver.ReasonNoLogin, strings.Contains(reason, "parse"), strings.Contains(reason, "protocol"):
		return "find out which program connects to the NATS port, such as a health check or a client with a wrong URL"
	case strings.Contains(reason, "payload"):
		return "raise nats_server.max_payload"
	}
	return "check the network and the load of that machine"
}

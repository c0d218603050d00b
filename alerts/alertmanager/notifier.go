package alertmanager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/secret"
)

const (
	// resend is the pace of Prometheus's --rules.alert.resend-delay, and hold is what it makes of it.
	resend = time.Minute
	hold   = 4 * resend
	// maxRecords bounds the groups remembered in memory; the Store remembers the others.
	maxRecords = 1000
)

// Options are what Notifiers work with. All may be zero.
type Options struct {
	Store       alerts.Store // nil: what ends around a restart may fire for another 4 minutes
	ExternalURL string       // of llmtap's web pages; without one alerts have no generatorURL
	Client      *http.Client // nil: alerts.NewClient
	Logger      *slog.Logger
}

// A Notifier tells one Alertmanager. It is safe for concurrent use; calls go one after another.
type Notifier struct {
	url, token, externalURL string
	client                  *http.Client
	store                   alerts.Store
	log                     *slog.Logger

	mu    sync.Mutex       // guards known, and keeps one call at a time
	known map[string]known // by group
}

// known is what Alertmanager holds of one group, by alert.
type known map[string]held

// held is one alert that Alertmanager has accepted as firing.
type held struct {
	Until time.Time `json:"until"` // endsAt as first sent by this process, or later: Alertmanager holds it so long at least
	Over  bool      `json:"over"`  // it had ended before
}

var _ alerts.Paced = (*Notifier)(nil)

// New reads the token and returns a Notifier for each URL. It calls nobody.
func New(cfg Config, o Options) ([]*Notifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	if o.Client == nil {
		o.Client = alerts.NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var all []*Notifier
	for _, u := range cfg.URLs {
		all = append(all, &Notifier{
			url: strings.TrimRight(u, "/") + "/api/v2/alerts", token: token, externalURL: o.ExternalURL,
			client: o.Client, store: o.Store, log: o.Logger, known: map[string]known{},
		})
	}
	return all, nil
}

// Pace implements alerts.Paced.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{Every: resend} }

// Notify sends the state of g.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.load(ctx, g.Key)
	list, after := plan(g, n.externalURL, before, time.Now().UTC())
	if len(list) == 0 {
		return nil
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode alerts: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("prepare post to alertmanager: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if n.token != "" {
		req.Header.Set("Authorization", "Bearer "+n.token)
	}
	if err := alerts.Call(n.client, req, nil); err != nil {
		later, ok := errors.AsType[*alerts.RetryError](err)
		if ok && !g.Firing() && expired(after, time.Now()) {
			return fmt.Errorf("post the end of %s to alertmanager, which has let it expire since: %w", g.Key, later.Err)
		}
		return fmt.Errorf("post to alertmanager: %w", err)
	}
	n.keep(ctx, g.Key, before, after)
	return nil
}

// plan is what Alertmanager is to be sent about g at now, and what it knows when it has accepted that.
func plan(g alerts.Group, externalURL string, before known, now time.Time) ([]Alert, known) {
	current := map[string]bool{} // by labels: what is not hidden by a higher severity
	for _, a := range g.Current() {
		current[fingerprint(labelsOf(&a))] = true
	}
	until := now.Add(hold)
	after := known{}
	var list []Alert
	for _, a := range Alerts(g, externalURL) {
		h, told := before[a.id]
		switch {
		case a.EndsAt.IsZero():
			a.EndsAt = until
			if until.Before(a.StartsAt) { // clocks differ; Alertmanager would refuse it
				a.EndsAt = a.StartsAt.Add(hold)
			}
			h = held{Until: until}
		case told && !h.Over: // it is over
		case told, current[a.Fingerprint()]:
			if !told {
				h = held{Until: until, Over: true}
			}
			a.Annotations["ended_at"] = a.EndsAt.Format(time.RFC3339)
			a.EndsAt = h.Until
		default: // what fires on the same series tells more
			continue
		}
		after[a.id] = h
		list = append(list, a)
	}
	return list, after
}

// expired reports whether Alertmanager no longer holds any of k.
func expired(k known, now time.Time) bool {
	for _, h := range k {
		if !now.After(h.Until) {
			return false
		}
	}
	return true
}

func (n *Notifier) storeKey(group string) string {
	h := sha256.Sum256([]byte(n.url + "\n" + group))
	return "alertmanager." + hex.EncodeToString(h[:8])
}

// load returns what Alertmanager knows of a group. When that cannot be read, it is taken to know nothing: an alert that
// ended then fires for another 4 minutes, which is better than one that nobody hears of.
func (n *Notifier) load(ctx context.Context, group string) known {
	if k, ok := n.known[group]; ok || n.store == nil {
		return k
	}
	var k known
	b, err := n.store.Get(ctx, n.storeKey(group))
	if err == nil && b != nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		n.log.Error("cannot read which alerts alertmanager knows", "group", group, "error", err)
		return nil
	}
	return k
}

// keep remembers what Alertmanager knows, and writes it when it knows of other alerts than before.
func (n *Notifier) keep(ctx context.Context, group string, before, after known) {
	if _, ok := n.known[group]; !ok && len(n.known) >= maxRecords {
		for k := range n.known {
			delete(n.known, k)
			break
		}
	}
	n.known[group] = after
	same := len(before) == len(after)
	for id, h := range after {
		b, ok := before[id]
		same = same && ok && b.Over == h.Over
	}
	if same || n.store == nil {
		return
	}
	b, err := json.Marshal(after)
	if err == nil {
		put, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = n.store.Put(put, n.storeKey(group), b)
	}
	if err != nil {
		n.log.Error("cannot store which alerts alertmanager knows", "group", group, "error", err)
	}
}

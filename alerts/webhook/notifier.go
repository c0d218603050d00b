package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

// Headers of a post.
const (
	HeaderDelivery  = "X-Llmtap-Delivery"
	HeaderTimestamp = "X-Llmtap-Timestamp"
	HeaderSignature = "X-Llmtap-Signature"
)

// Options are what a Notifier works with. All may be zero.
type Options struct {
	Client      *http.Client // nil: alerts.NewClient
	GroupBy     []string     // labels sent as groupLabels, besides alertname
	ExternalURL string       // of llmtap's web pages: externalURL of a post, and the base of generatorURL
}

// A Notifier posts alert groups to one URL. It keeps no state and is safe for concurrent use.
type Notifier struct {
	cfg    Config
	secret []byte
	opts   Options
}

var _ alerts.Paced = (*Notifier)(nil)

// New reads the secret and returns a Notifier. It calls nobody.
func New(cfg Config, o Options) (*Notifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	key, err := cfg.readSecret()
	if err != nil {
		return nil, err
	}
	if o.Client == nil {
		o.Client = alerts.NewClient()
	}
	return &Notifier{cfg: cfg, secret: key, opts: o}, nil
}

// Pace implements alerts.Paced: each post is a message of its own, so numbers that change are not worth one.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{NewsOnly: true} }

// Notify posts the state of g.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	body, err := json.Marshal(newMessage(g, n.opts.GroupBy, n.opts.ExternalURL))
	if err != nil {
		return fmt.Errorf("encode alert group: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("prepare post to webhook: %w", err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderDelivery, deliveryID(g, body))
	req.Header.Set(HeaderTimestamp, timestamp)
	req.Header.Set(HeaderSignature, Sign(n.secret, timestamp, body))
	if err := alerts.Call(n.opts.Client, req, nil); err != nil {
		return fmt.Errorf("post to webhook: %w", err)
	}
	return nil
}

// Sign returns the signature of a body that is sent at timestamp, the value of its header.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// deliveryID is the same for each try of one body. A reminder may have the body of the post before it, so it has the time
// of the last evaluation too.
func deliveryID(g alerts.Group, body []byte) string {
	h := sha256.New()
	h.Write(body)
	if g.Repeat {
		var last time.Time
		for i := range g.Alerts {
			if t := g.Alerts[i].UpdatedAt; t.After(last) {
				last = t
			}
		}
		fmt.Fprintf(h, " %d", last.UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

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
	"github.com/llmtap/llmtap/alerts/endpoint"
)

// Headers of a post.
const (
	HeaderDelivery  = "X-Llmtap-Delivery"
	HeaderTimestamp = "X-Llmtap-Timestamp"
	HeaderSignature = "X-Llmtap-Signature"
)

// A Notifier posts alert groups to one URL. It has no state and is safe for concurrent use.
type Notifier struct {
	url    string
	secret []byte
	opts   alerts.NotifierOptions
}

var _ alerts.Paced = (*Notifier)(nil)

// Pace implements alerts.Paced. Each post is a separate message, so changed numbers alone do not justify a post.
func (n *Notifier) Pace() alerts.Pace { return alerts.Pace{NewsOnly: true} }

// Notify posts the state of g.
func (n *Notifier) Notify(ctx context.Context, g alerts.Group) error {
	body, err := json.Marshal(newMessage(g, n.opts.GroupBy, n.opts.Access))
	if err != nil {
		return fmt.Errorf("encode alert group: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("prepare post to webhook: %w", err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderDelivery, deliveryID(g, body))
	req.Header.Set(HeaderTimestamp, timestamp)
	req.Header.Set(HeaderSignature, Sign(n.secret, timestamp, body))
	if err := endpoint.Call(n.opts.Client, req, nil); err != nil {
		return fmt.Errorf("post to webhook: %w", err)
	}
	return nil
}

// Sign returns the signature header of a body sent at timestamp.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// deliveryID returns an id that is the same for every attempt to deliver one body. A reminder may have the same body as
// the post before it, so its id also depends on the time of the last evaluation.
func deliveryID(g alerts.Group, body []byte) string {
	h := sha256.New()
	h.Write(body)
	if g.Repeat {
		fmt.Fprintf(h, " %d", g.Updated().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

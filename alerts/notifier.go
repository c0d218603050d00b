package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// A Notifier delivers alert groups: the first call for a key creates a notification, later calls update it. A *RetryError
// is retried; any other error is final.
type Notifier interface {
	Notify(ctx context.Context, g Group) error
}

// A Paced notifier has other intervals between notifications than one whose messages are updated in place.
type Paced interface {
	Notifier
	Pace() Pace
}

// A Pace is the intervals between notifications.
type Pace struct {
	// Every, if positive, is the interval at which a firing group is sent again, with or without news, also after a final
	// error: for a receiver that resolves an alert it no longer receives. It replaces reminders.
	Every time.Duration
	// NewsOnly suppresses notifications in which only numbers changed: for a receiver that shows each as a new message.
	NewsOnly bool
	// Numbers is the shortest interval between two notifications of all groups in which only numbers changed: for a
	// receiver with a rate limit, which must have room for news.
	Numbers time.Duration
}

// RetryError is a delivery that may succeed later.
type RetryError struct {
	After time.Duration // 0: the engine's own backoff
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// A NotifierConfig is the configuration section of one kind of notifier. A process uses all fields of its configuration that
// implement it.
type NotifierConfig interface {
	// Validate returns every error, joined; nil if nothing is configured.
	Validate() error
	// Receivers returns the configured receivers, none if nothing is configured. It makes no calls.
	Receivers(o NotifierOptions) ([]Receiver, error)
}

// NotifierOptions are what the notifiers of a process share. All may be zero.
type NotifierOptions struct {
	Store       Store        // nil: a restart notifies of firing groups again
	ExternalURL string       // of llmtap's web pages; without one notifications contain no links
	GroupBy     []string     // labels that group alerts, besides the alert's name
	Client      *http.Client // nil: NewClient
	Logger      *slog.Logger // nil: none
}

// SetDefaults replaces nil values.
func (o *NotifierOptions) SetDefaults() {
	if o.Client == nil {
		o.Client = NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// A Receiver is a notifier and its destination.
type Receiver struct {
	Notifier
	Destination string // such as a channel or a host; no secret
	System      bool   // not people: it also gets alerts of severity none, such as the Watchdog
	// Check verifies the configuration without a notification and returns what it found. Its error ends with what to do.
	Check func(ctx context.Context) (string, error)
}

// CheckReachable returns a Check for a receiver whose URL may only be called with a notification.
func CheckReachable(key, rawURL string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := Reach(ctx, rawURL); err != nil {
			return "", fmt.Errorf("%w; correct %s, or start the receiver, or look for a firewall in between", err, key)
		}
		return "the host answers; llmtap alerts test-notify sends a test alert", nil
	}
}

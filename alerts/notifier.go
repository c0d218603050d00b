package alerts

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const callTimeout = 10 * time.Second

// A Notifier delivers alert groups. The first call for a key creates a notification; later calls update it. Notify is
// retried after a *RetryError; any other error is final.
type Notifier interface {
	Notify(ctx context.Context, g Group) error
}

// A Paced notifier specifies its own intervals between notifications. The defaults suit messages that are updated in
// place.
type Paced interface {
	Notifier
	Pace() Pace
}

// A Named notifier has a name in logs and metrics, for example its kind and destination. It is never a secret.
type Named interface {
	Notifier
	Name() string
}

// A Folder is a Notifier for people that can notify them of many groups in one message, so that a storm of alerts is not a storm of
// messages.
type Folder interface {
	Notifier
	// Fold is called with the groups that are due, those of the highest severity first, if people have not been notified of them yet
	// or if their last notification was a summary. It returns one result per group: nil if a summary has notified people of it,
	// ErrNotFolded if Notify must be called, ErrFoldLater if Fold must be called again after that, or another error as of Notify.
	Fold(ctx context.Context, groups []Group) []error
}

var (
	// ErrNotFolded is the result of Folder.Fold for a group that needs a notification of its own.
	ErrNotFolded = errors.New("not part of a summary")
	// ErrFoldLater is the result of Folder.Fold for a group that must not be sent before those with ErrNotFolded in the same call.
	ErrFoldLater = errors.New("part of a summary that is sent later")
)

// A Pace specifies intervals between notifications.
type Pace struct {
	// Every, if positive, is the interval at which a firing group is sent again, with or without news and even after a
	// final error. It replaces reminders and is meant for receivers that resolve alerts they no longer receive.
	Every time.Duration
	// NewsOnly suppresses notifications in which only numbers changed. It is meant for receivers that show each
	// notification as a new message.
	NewsOnly bool
	// Decisions, with NewsOnly, is set for a receiver that shows acknowledgements and silences as new messages.
	Decisions bool
	// Numbers is the minimum interval between two notifications, of any groups, in which only numbers changed. It is
	// meant for receivers with a rate limit, so that numbers leave room for news.
	Numbers time.Duration
	// Muted is set for a receiver with silences and inhibition of its own: it also receives muted groups.
	Muted bool
}

// RetryError reports a failed delivery that may succeed later.
type RetryError struct {
	After time.Duration // delay until the next attempt; 0: the engine's own backoff
	// Down reports that the receiver accepts no group at present, for example because it cannot be reached. The engine then
	// tries one group at a time, until one is accepted.
	Down bool
	// Doubt reports that the receiver may have accepted the group, for example because its answer did not arrive.
	Doubt bool
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// Access is how the readers of a notification reach llmtap.
type Access struct {
	ExternalURL string // base URL of the web pages; empty: notifications contain no links
	URL         string // value of the flag --url in commands; empty if commands find the collector without it
	Host        string // host on which the commands must run; empty if they run on any host
	IssueURL    string // template of the URL of a new issue, see wording.IssueURL; empty: no link
}

// A NotifierConfig is the configuration section of one kind of notifier. A process uses every field of its
// configuration that implements NotifierConfig.
type NotifierConfig interface {
	// Validate returns all errors, joined; nil if nothing is configured.
	Validate() error
	// Receivers returns the configured receivers, if any. It does not call them.
	Receivers(o NotifierOptions) ([]Receiver, error)
}

// NotifierOptions are the options shared by all notifiers of a process. All may be zero.
type NotifierOptions struct {
	Store    Store    // if nil, firing groups are notified again after a restart
	Access   Access   // how readers reach llmtap
	Controls Controls // what people may do to alerts; nil: nothing
	GroupBy  []string // labels that group alerts, besides the alert's name or problem
	// Problem returns what is known of the problem of a group; nil: nothing.
	Problem func(key string) (Problem, bool)
	// Problems are what people may decide about problems; nil: nothing.
	Problems Problems
	Client   *http.Client // if nil, NewClient is used
	Logger   *slog.Logger // if nil, nothing is logged
	// Registerer registers the metrics of Receiver.Serve; nil: they are not exported.
	Registerer prometheus.Registerer
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

// NewClient returns the HTTP client for notifiers. It does not follow redirects, because a redirected POST would become
// a GET.
func NewClient() *http.Client {
	return &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// A Receiver is a notifier and its destination.
type Receiver struct {
	Notifier
	Destination string // for example a channel or a host; never a secret
	System      bool   // a system, not people; it also receives alerts of severity none, such as the Watchdog
	// Check verifies the configuration without sending a notification and returns the finding as text. Its error ends with a
	// remedy.
	Check func(ctx context.Context) (string, error)
	// Serve, if not nil, executes what people do in the receiver's messages, until ctx ends. Every process of the role calls
	// it, whether it notifies or not. It calls report with the reason when it does not work, and with nil when it does.
	Serve func(ctx context.Context, report func(error))
}

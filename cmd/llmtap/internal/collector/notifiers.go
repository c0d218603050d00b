package collector

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/heartbeat"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/loopback"
)

// A Receiver is a configured receiver of notifications.
type Receiver struct {
	alerts.Receiver
	Kind string // key of the section in the configuration
}

// Receivers returns the configured receivers. It does not connect to them. It sets the options that follow from cfg.
func Receivers(cfg *config.Config, o alerts.NotifierOptions) ([]Receiver, error) {
	o.Access, o.GroupBy = reachable(&cfg.UI, cfg.Listen), append(slices.Clone(cfg.Alerts.GroupBy), healthLabel)
	var all []Receiver
	for kind, n := range cfg.Notifiers() {
		list, err := n.Receivers(o)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", kind, err)
		}
		for _, r := range list {
			all = append(all, Receiver{r, kind})
		}
	}
	return all, nil
}

// reachable returns how the readers of notifications reach a collector that listens on listen. Commands find a collector on
// the default address of their host by themselves.
func reachable(ui *config.UI, listen string) alerts.Access {
	out := reach(ui.ExternalURL, listen)
	out.IssueURL = ui.IssueURL
	return out
}

func reach(externalURL, listen string) alerts.Access {
	if externalURL != "" {
		return alerts.Access{ExternalURL: externalURL, URL: strings.TrimRight(externalURL, "/")}
	}
	name, err := os.Hostname()
	if err != nil {
		name = "the host of llmtap"
	}
	host, port, _ := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	switch {
	case listen == config.Default().Listen:
		return alerts.Access{Host: name}
	case loopback.Is(host):
		return alerts.Access{Host: name, URL: "http://" + listen}
	case host != "" && (ip == nil || !ip.IsUnspecified()):
		return alerts.Access{URL: "http://" + listen}
	case err != nil:
		return alerts.Access{Host: name, URL: "http://127.0.0.1:" + port}
	}
	return alerts.Access{URL: "http://" + net.JoinHostPort(name, port)}
}

// Heartbeat returns the receiver of heartbeats, if one is configured.
func Heartbeat(cfg *config.Config) []Receiver {
	if u := cfg.Alerts.HeartbeatURL; u != "" {
		return []Receiver{{heartbeat.Receiver(u), "heartbeat"}}
	}
	return nil
}

// notifiers returns the log notifier, the notifiers in c.opts and the configured notifiers, and the configured receivers.
func (c *Collector) notifiers(o alerts.NotifierOptions) ([]alerts.Notifier, []Receiver, error) {
	cfg := c.cfg
	cfg.Listen = c.httpAddr() // with the port that was chosen for port 0
	configured, err := Receivers(&cfg, o)
	if err != nil {
		return nil, nil, err
	}
	all := []alerts.Notifier{withoutWatchdog{newLogNotifier(c.logger)}}
	for _, n := range c.opts.Notifiers {
		all = append(all, dropWatchdog(n))
	}
	for _, r := range configured {
		n := r.Notifier
		if !r.System {
			n = dropWatchdog(n)
		}
		all = append(all, withName(n, r.Kind+" "+r.Destination))
	}
	return all, configured, nil
}

// healthLabel is the label by which alerts on llmtap's health are grouped, in addition to the configured labels.
const healthLabel = "component"

// severityNone is the severity of alerts that are meant for machines, such as the watchdog.
const severityNone = "none"

// dropWatchdog returns n without the groups that contain only alerts for machines.
func dropWatchdog(n alerts.Notifier) alerts.Notifier {
	if f, ok := n.(alerts.Folder); ok {
		return foldWithoutWatchdog{withoutWatchdog{n}, f}
	}
	return withoutWatchdog{n}
}

// withoutWatchdog drops groups that contain only alerts for machines.
type withoutWatchdog struct{ alerts.Notifier }

var _ alerts.Paced = withoutWatchdog{}

func (w withoutWatchdog) Notify(ctx context.Context, g alerts.Group) error {
	if forMachines(g) {
		return nil
	}
	return w.Notifier.Notify(ctx, g)
}

func forMachines(g alerts.Group) bool {
	return !slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool { return a.Severity() != severityNone })
}

// foldWithoutWatchdog is withoutWatchdog for an alerts.Folder.
type foldWithoutWatchdog struct {
	withoutWatchdog
	folder alerts.Folder
}

var _ alerts.Folder = foldWithoutWatchdog{}

// Fold leaves the dropped groups to Notify.
func (w foldWithoutWatchdog) Fold(ctx context.Context, groups []alerts.Group) []error {
	out := make([]error, len(groups))
	var rest []alerts.Group
	var index []int
	for i, g := range groups {
		if out[i] = alerts.ErrNotFolded; !forMachines(g) {
			rest, index = append(rest, g), append(index, i)
		}
	}
	for i, err := range w.folder.Fold(ctx, rest) {
		out[index[i]] = err
	}
	return out
}

// Pace returns the pace of the wrapped notifier.
func (w withoutWatchdog) Pace() alerts.Pace { return paceOf(w.Notifier) }

// withName returns n as an alerts.Named.
func withName(n alerts.Notifier, name string) alerts.Notifier {
	if f, ok := n.(alerts.Folder); ok {
		return namedFolder{named{n, name}, f}
	}
	return named{n, name}
}

type named struct {
	alerts.Notifier
	name string
}

var (
	_ alerts.Named = named{}
	_ alerts.Paced = named{}
)

// Name implements alerts.Named.
func (n named) Name() string { return n.name }

// Pace returns the pace of the notifier.
func (n named) Pace() alerts.Pace { return paceOf(n.Notifier) }

// namedFolder is named for an alerts.Folder.
type namedFolder struct {
	named
	folder alerts.Folder
}

var _ alerts.Folder = namedFolder{}

// Fold implements alerts.Folder.
func (n namedFolder) Fold(ctx context.Context, groups []alerts.Group) []error {
	return n.folder.Fold(ctx, groups)
}

func paceOf(n alerts.Notifier) alerts.Pace {
	if n, ok := n.(alerts.Paced); ok {
		return n.Pace()
	}
	return alerts.Pace{}
}

// maxLogged bounds the alerts whose log line a logNotifier remembers.
const maxLogged = 10_000

// A logNotifier logs the news of alerts, so that they are visible before Slack is configured. Of a group, it logs the alerts
// that have changed, and in a reminder those that fire.
type logNotifier struct {
	logger *slog.Logger

	mu     sync.Mutex           // guards logged
	logged map[string]logStatus // by Alert.ID
}

// A logStatus is what makes an alert news.
type logStatus struct {
	state            alerts.State
	severity         string
	causes, versions int // that matter
}

func newLogNotifier(logger *slog.Logger) *logNotifier {
	return &logNotifier{logger: logger, logged: map[string]logStatus{}}
}

// Pace implements alerts.Paced.
func (n *logNotifier) Pace() alerts.Pace { return alerts.Pace{NewsOnly: true} }

// Notify implements alerts.Notifier.
func (n *logNotifier) Notify(ctx context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.logged) > maxLogged {
		clear(n.logged)
	}
	for i := range g.Alerts {
		a := &g.Alerts[i]
		status := logStatus{state: a.State, severity: a.Severity()}
		if a.State == alerts.Firing { // a resolved alert has the evidence of its peak
			for _, s := range a.Evidence.Shares {
				if a.Evidence.Material(s.Failed) {
					status.causes++
				}
			}
			for _, v := range a.Evidence.Versions {
				if a.Evidence.Material(v.Failed) {
					status.versions++
				}
			}
		}
		id := a.ID()
		if n.logged[id] == status && (!g.Repeat || a.State != alerts.Firing) {
			continue
		}
		n.logged[id] = status
		n.logger.WarnContext(ctx, "alert", "state", a.State, "alert", a.Name, "severity", a.Labels["severity"],
			"service", a.Labels["service"], "stage", a.Labels["stage"], "failed", a.Evidence.Failed, "calls", a.Evidence.Calls)
	}
	return nil
}

// Package alertmanager sends alerts to Prometheus's Alertmanager with POST /api/v2/alerts, as Prometheus does.
//
//	Group ─> Notify ─┬─ firing:   endsAt in 4 minutes, sent again each minute
//	                 ├─ resolved: endsAt when it ended
//	                 └─ resolved before Alertmanager received it: endsAt in 4 minutes, once
//
// It also sends the Watchdog, which always fires. Route the Watchdog to a dead man's switch, or drop it.
//
// # Why endsAt moves
//
// Alertmanager resolves an alert when its endsAt has passed. If llmtap dies, its alerts end after 4 minutes; one or two
// lost posts do not end them. The interval and the factor are the same as in Prometheus.
//
// # Why a resolved alert may be sent as firing
//
// Alertmanager does not notify anyone of an alert that it receives only as resolved. An alert that ended while
// Alertmanager was down, or that was found late, would be lost. It is therefore sent as firing for 4 minutes, with its
// end in the annotation ended_at. The Store records the alerts that Alertmanager has received, so that a restart of
// llmtap does not fire them again.
//
// # Several Alertmanagers
//
// The members of a cluster share silences and notifications, but not alerts. Each member therefore has its own Notifier
// and receives every alert.
package alertmanager

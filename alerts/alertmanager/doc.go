// Package alertmanager passes alerts on to Prometheus's Alertmanager, by POST /api/v2/alerts, as Prometheus does.
//
//	Group ─> Notify ─┬─ firing:   endsAt in 4 minutes, sent again each minute
//	                 ├─ resolved: endsAt when it ended
//	                 └─ over before Alertmanager heard of it: endsAt in 4 minutes, once
//
// The Watchdog is sent too. It always fires: route it to a dead man's switch, or to nobody.
//
// # Why endsAt moves
//
// Alertmanager takes an alert for resolved once endsAt is past. If llmtap dies, its alerts end by themselves after
// 4 minutes, and not while one or two posts get lost: these are the pace and the factor of Prometheus.
//
// # Why a resolved alert may be sent as one that fires
//
// Alertmanager tells nobody of an alert that it only knows as resolved. One that ended while Alertmanager was down, or
// that was found late, would be lost; so it is sent as firing for 4 minutes, with its end as the annotation ended_at.
// Which alerts Alertmanager knows is in the Store, so that a restart of llmtap fires nothing anew.
//
// # Several Alertmanagers
//
// Members of a cluster share silences and what was notified, not alerts. So each has a Notifier of its own, and each is
// told of everything.
package alertmanager

// Package alerts is the vocabulary of alerting, which the engine, notifiers, pages and commands share: a Group of Alerts with their
// Evidence goes to a Notifier; an Ack, a silence or an Inhibitor mutes it; Controls is what people may do.
//
//	analyzer.Tally ──> engine ──Group──> slack, alertmanager, webhook, pagerduty, msteams, email, heartbeat
//
// It imports only silence and rules, which define what silences and the keys of alerts are. The packages that use it:
//
//	engine                           evaluates rules and notifies; doc.go says why it does so as it does
//	slack, msteams, email            notifiers that write to people
//	alertmanager, webhook,
//	pagerduty, heartbeat             notifiers that send data
//	wording, endpoint, sent          of notifiers: texts and links, HTTP calls, what they remember across restarts
//	thread                           messages that cannot be edited, of msteams and email
//	promapi                          the engine's rules and series as the HTTP API of Prometheus
//	ruletest                         unit tests of rules
//
// The engine also uses tsdb (samples for PromQL) and regression (comparison of versions), which do not know alerts.
package alerts

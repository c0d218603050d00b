// Command llmtap observes the LLM calls of an agent fleet: it reports within seconds which calls break the message
// protocol, why, and which version introduced the defect.
//
// This folder has one thin file for each subcommand: flags, and then one call. A command's logic is in internal/, because
// commands combine all other folders, which do not know each other:
//
//	up, demo           config ──> collector (roles: receive, proxy, analyze, alert, ui) ──> pages;  demo = collector + fleet
//	lint, repair,      records ──> lint, mend, explain;  reduce and regression shorten a failing history to a test
//	explain, import    records ──> importer
//	query, show, tail  connect, remote ──> query, show, tail ──> table, terminal;  mcpserver: the same for coding agents
//	alerts             alertcheck, backtest, testnotify, silences
//	gate               gate: a new version against the last one
//	operation          doctor, schema, erase, natsaccounts
//	all of them        command (flags, help, exit status), config, table, terminal
//
// Tests have helpers of their own: collectortest, browsertest, filetest, oteltest, and sdktest, a module that has the providers' SDKs.
// imports_test.go has the rules of who may import whom.
package main

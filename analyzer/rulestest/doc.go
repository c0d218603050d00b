// Package rulestest provides histories that break rules, for tests: the examples of the specification, and mutations of
// histories that break none.
//
//	history ─> Atoms: texts, calls and replies ─> Sites: calls with a reply ─> Mutation ─> Render ─> broken history
package rulestest

/*
Package access decides who may do what on the web pages and in the API.

	request ─> Gate: token of the configuration │ Machines: llmtap_… │ Sessions: cookie of a log-in ─> Person with a Role
	                                                                                                     │
	                                              route of a Mux, which names the Role that it needs ────┴─> handler, or refusal

Without tokens and without a provider, everyone is an admin, as the listeners are then those of one machine.

A Policy says which calls a person sees: those of the teams of their groups, or of their token. The Scope travels with the request:

	Mux ─> Person ─> Policy ─> Scope in the context ─┬─> ClickHouse: conditions of rows, by table
	                                                 ├─> PromQL: which series are selected
	                                                 └─> handlers: what is in memory, by its labels

# Why PromQL gets no matchers

Somebody in two teams sees the series of one or of the other, and the matchers of a selector are joined by "and". So series are left out
where they are selected, also for label names and values.

# Why teams run no SQL of their own

The table of messages has no service, as equal messages are stored once. Statements of ours read it by ids from rows that the person
sees; another statement could read all bodies.

# Where sessions are

Sessions are stored at the collectors and not in the cookie, which only has a random id. So log-out ends a session everywhere, also
in a copy of the cookie, and a refresh token never leaves the collectors. It is stored encrypted with a key that only the cookie has.
*/
package access

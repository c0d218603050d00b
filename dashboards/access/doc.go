/*
Package access decides who may do what on the web pages and in the API.

	request ─> Gate: token of the configuration │ Machines: llmtap_… │ Sessions: cookie of a log-in ─> Person with a Role
	                                                                                                     │
	                                              route of a Mux, which names the Role that it needs ────┴─> handler, or refusal

Without tokens and without a provider, everyone is an admin, as the listeners are then those of one machine.

Sessions are stored at the collectors and not in the cookie, which only has a random id. So log-out ends a session everywhere, also
in a copy of the cookie, and a refresh token never leaves the collectors. It is stored encrypted with a key that only the cookie has.
*/
package access

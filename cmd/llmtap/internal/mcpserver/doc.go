/*
Package mcpserver answers the questions of coding agents over the Model Context Protocol (MCP).

	coding agent ── llmtap mcp: stdin, stdout ────────────────────┐
	             ── POST /mcp ──> guard of the listener ─> Handler ┴─> tool ─> show, query, problems, lint, explain, ruledoc ─> answer

Without Options.Act, the tools change nothing. They follow the course of an investigation: each answer names the arguments of the next call.

	whats_wrong ─> incident ─> show            query, sql, backtest  lint, explain, rules
	stages, causes  versions,   messages,      anything else         need no stored data
	     problems ↗ proof, fix  faults marked
	     what people decided

With it, acknowledge, assign, resolve, silence and reopen decide about a problem in the name of the user, as the page of the problem
does. They are asked for apart, because a text from the traffic could talk a model into using them.

An answer is at most 8,000 bytes of text, because it fills the context of a model; it ends with how to get the rest. Calls are
limited in number and time.

# Why texts of messages are withheld

A tool's answer leaves the machine for the provider of the coding agent's model. By default it therefore contains what an alert
in Slack contains: roles, ids, sizes, names of tools, findings and error texts. Options.Content adds texts, for a reader who may
also read the web pages.
*/
package mcpserver

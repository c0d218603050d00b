/*
Package web serves llmtap's web pages.

	Slack, CLI ── link ──> Handler ── page ──> sections, loaded concurrently ──> HTML, flushed section by section
	browser <── /live: server-sent events ──┘       │
	                                                ├─> Query: ClickHouse, statements in sql/*.sql and dashboards/queries
	                                                ├─> Explorer: ClickHouse, statements that a viewer wrote, with limits
	                                                ├─> Firing, Incidents, Problems, Controls: alerts, rules, silences
	                                                ├─> Tallies: counts of the stream, also while ClickHouse is down
	                                                └─> Conversations, Health, Views

It does not import any other part of llmtap: Options are the functions and interfaces that it reads through (source*.go), and the
caller implements them. A source that fails costs the sections that need it, and these say so.

A page is a type with the sources that it reads, and a list of sections; the site is what all pages share. To add a page, add a
file with its type, a template of its sections and a route in NewHandler. All state of a page is in its URL (View), so that a link
shows what its sender saw.

# Why the server draws everything

A page must be readable on a phone within seconds, without JavaScript, and years later. Charts are SVG. JavaScript only
refreshes sections, copies texts, converts times, suggests values of filters and keeps the views of one browser:
static/app.js. The Content-Security-Policy allows nothing else: no inline style or script, and no other host.

# Why hostile content is harmless

Names, texts and errors come from agents and providers. html/template escapes them by context; nothing is ever converted to
template.HTML except the SVG elements of package-internal charts, whose texts are escaped by the same template.
*/
package web

// Package toolreply reads what a tool replied to a call: whether the reply reports an error, and a hash of its content.
//
//	reply in a request ──Read──> Reply   how certain it is that the tool failed, hash of the content  ─> tallies, loops
//
// # Why there are two degrees of certainty
//
// Some protocols have a field for it: is_error (Anthropic), isError (MCP), status (Bedrock), the member error of a
// functionResponse (Gemini). In the others, such as chat completions, a failed tool replies with text like any other, and each
// framework has its own. Only texts that a framework writes itself count, at the place where it writes them, and a JSON
// object that consists of an error: the word error in a page that a tool fetched says nothing about the tool. A tool that
// fails in its own words is therefore missed.
//
// # What it costs
//
// Read is called once per reply, for the first request with it. It steps over the members of the reply and hashes its
// content, and compares only the start and the end of its text.
package toolreply

// Package sse splits the body of a text/event-stream into its events.
//
//	": ping\n\nevent: error\r\ndata: {\"a\":\ndata: 1}\r\n\r\n"
//	      └ comment, ignored                └ joined by a line feed
//	                         ──> Event{Name: "error", Data: "{\"a\":\n1}"}
//
// It reads complete bodies as captured by a hook, not connections, and does not interpret the data. It follows the
// WHATWG specification except at the end: an event without an empty line after it is also returned, because some
// servers close the connection right after the last data line. Data of one line is a slice of the body; only data of
// several lines is copied.
package sse

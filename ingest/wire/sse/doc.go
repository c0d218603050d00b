// Package sse splits the body of a text/event-stream into its events.
//
//	": ping\n\nevent: error\r\ndata: {\"a\":\ndata: 1}\r\n\r\n"
//	      └ comment, ignored                └ joined by a line feed
//	                         ──> Event{Name: "error", Data: "{\"a\":\n1}"}
//
// It reads whole bodies, as a hook captured them, not connections, and does not interpret the data. It follows the WHATWG
// specification except at the end: an event without an empty line behind it is still an event, because some servers close
// right after the last data line. Data of one line is a slice of the body; only data of several lines is copied.
package sse

// Package sse splits the body of a text/event-stream into its events.
//
//	": ping\n\nevent: error\r\ndata: {\"a\":\ndata: 1}\r\n\r\n"
//	      └ comment, ignored                └ joined by a line feed
//	                         ──> Event{Name: "error", Data: "{\"a\":\n1}"}
//
// It reads whole bodies, as a hook captured them, not connections, and knows nothing of what the data means. It
// follows the WHATWG specification but for the end: an event that no empty line ends is still an event, because some
// servers close right after the last data line. Data of one line is a slice of the body; only data of several lines
// is copied.
package sse

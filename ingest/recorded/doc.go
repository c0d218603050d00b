// Package recorded reads recorded LLM calls from files: JSON lines of exchanges and HAR, plain or gzip. What comes in is
// a file, what goes out is the two events of each exchange, in the order of the file.
//
//	traffic.jsonl.gz ──┐                  ┌── request  ┐
//	                   ├──> Reader.Next ──┤            ├──> jetstream.Publisher
//	browser.har ───────┘         │        └── response ┘
//	                             └── *RecordError: file, line, reason; reading goes on
//
// A line is an object with the fields of Line. Bodies stay the bytes that stand in the line: request and response are
// cut out of it, not decoded and encoded again, because the defect looked for is often in the spelling. A body that is
// no JSON, such as a stream of server-sent events, stands in a string; one that is no text is base64.
//
// # Why ids and times are functions of the line alone
//
// Importing twice must change nothing: a row is replaced when its sort key is the same, and that holds the exchange's
// id and the day it started. So the id is the UUIDv5 of the line without the space around it, and the time is the
// record's own, else the Date that its answer's headers carry, else a fixed day: Config.Day, or 1970-01-01, plus a
// microsecond per line to keep the order. The modification time of the file would be another in a copy of it, and the
// time of the import another each time. It follows that two exchanges whose lines are equal byte for byte are one.
//
// # What is not read
//
// The query of a URL, and headers other than the content type, the date and the provider's request id: they may hold
// keys. A HAR holds all that a browser or a debugging proxy saw; only what looks like an LLM call is taken from it.
package recorded

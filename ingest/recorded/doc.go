// Package recorded reads recorded LLM calls from files: exchanges as JSON lines, and HAR, plain or gzip. It returns the
// two events of each exchange, in the order of the file.
//
//	traffic.jsonl.gz ──┐                  ┌── request  ┐
//	                   ├──> Reader.Next ──┤            ├──> jetstream.Publisher
//	browser.har ───────┘         │        └── response ┘
//	                             └── *RecordError: file, line, reason; reading continues
//
// A line is an object with the fields of Line. Bodies keep their bytes: request and response are sliced from the line
// rather than decoded and encoded, because the defect is often in the spelling. A body that is not JSON, such as a stream
// of server-sent events, is a string; a binary body is base64.
//
// # Why ids and times depend on the line alone
//
// Importing a file twice must change nothing: a row replaces another with the same sort key, which contains the
// exchange's id and start day. So the id is the UUIDv5 of the trimmed line, and the time is the record's own, else the
// Date header of its response, else a fixed day: Config.Day, or 1970-01-01, plus a microsecond per line to keep the
// order. The file's modification time would differ in a copy, and the time of the import on every run. Consequently two
// exchanges whose lines are byte-identical are one.
//
// # What is not read
//
// URL queries, and headers other than content type, date and the provider's request id: they may contain keys. A HAR
// contains everything that a browser or debugging proxy captured; only LLM calls are read from it.
package recorded

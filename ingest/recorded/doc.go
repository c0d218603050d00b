// Package recorded reads recorded LLM calls from JSON lines, HAR files and the files of batches, which may be UTF-16 and
// compressed with gzip or zstd. It returns the two events of each exchange in the order of the file.
//
//	traffic.jsonl.gz ──┐                  ┌── request  ┐
//	                   ├──> Reader.Next ──┤            ├──> jetstream.Publisher
//	browser.har ───────┘         │        └── response ┘
//	                             └── *RecordError: file, line, reason; reading continues
//
// A line is an object with the fields of Line. Bodies are not changed: request and response are slices of the line,
// not decoded and encoded again, because the defect is often in the exact bytes. A body that is not JSON, such as a
// stream of server-sent events, is a string; a binary body is base64.
//
// A line of a file of a batch is a request or an answer (Request is nil), which the caller joins by CustomID.
//
// # Why ids and times depend only on the line
//
// Importing a file twice must not change anything. A row replaces another row with the same sort key, which contains
// the exchange's id and start day. Therefore the id is the UUIDv5 of the trimmed line. The time is that of the record
// or, if it has none, the Date header of the response, or else a fixed day (Config.Day or 1970-01-01) plus a
// microsecond per line to preserve the order. The modification time of the file would differ in a copy, and the time
// of the import would differ on every run. Consequently, two exchanges with identical lines count as one.
//
// # What is not read
//
// URL queries are not read, and neither are headers other than content type, date and the provider's request id,
// because they may contain keys. A HAR contains everything that a browser or debugging proxy captured; only LLM calls
// are read from it.
package recorded

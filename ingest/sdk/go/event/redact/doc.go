// Package redact masks credentials and personal data.
//
// Append masks error texts of providers. They may be JSON or plain text, complete or truncated:
//
//	Incorrect API key provided: sk-proj-Ab12…xyz. See https://bob:hunter2@example.com   (user jane@example.com)
//	                                 │ Append
//	                                 v
//	Incorrect API key provided: sk-***. See https://***@example.com   (user ***@***)
//
// Hooks and the proxy mask error texts before they leave the process, in every capture mode; the analyzer masks error
// texts from other sources. Masking is idempotent.
//
// # Rules
//
// ingest/sdk/testdata/redact.json specifies the rules with their word lists and test cases; hooks in all languages
// are tested with these cases. In short, keys retain their known prefix (sk-, AIza, AKIA, gsk_ …), so that texts can
// still be grouped. Values after Bearer, Basic, Cookie or a name such as api_key are masked, and so are passwords in
// URLs, JWTs, PEM private keys, identities in ARNs, ids of accounts, users and requests, and mail addresses.
//
// # What is not masked
//
// Text that explains the error is not masked: names of fields, roles and functions, ids of calls and items, and
// quotations from the request. Words that may be English are not masked either, such as org-wide, request_too_large
// and "Bearer authentication". Names of people, phone numbers and postal addresses are not recognized.
//
// # Bodies
//
// A Redactor masks bodies before they are stored. It masks only certain secrets and personal data, because the rest
// is evidence. Phone numbers without a country code are recognized only in North American notation.
//
// # Why no regular expressions
//
// During an incident, every response may be an error, and each is masked twice. Append is a single pass over a table
// of character classes: it takes 4 to 5 ns per byte, does not allocate if dst is large enough, and is linear for any
// text.
//
// Most of the data that an analyzer reads is bodies. Every secret contains a byte that is rare in combination with
// the byte before it. A Redactor therefore looks up one bit for each of 64 byte pairs without branches, and examines
// only the few percent of pairs whose bit is set; the bytes around exclude half of these. Per core it processes 600 MB/s
// of code, 1,400 MB/s of images, and 500 MB/s of logs, which contain many numbers. Examining byte by byte was a third as
// fast because of branch mispredictions (go -C ingest/sdk/go/event test -run - -bench . ./redact, MB/cpu-s).
package redact

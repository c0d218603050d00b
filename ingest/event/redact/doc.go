// Package redact masks credentials and personal data in the error texts of providers.
//
// It comes in as an error body, JSON or not, whole or cut, and goes out as the same text with masks:
//
//	Incorrect API key provided: sk-proj-Ab12…xyz. See https://bob:hunter2@example.com   (user jane@example.com)
//	                                 │ Append
//	                                 v
//	Incorrect API key provided: sk-***. See https://***@example.com   (user ***@***)
//
// Hooks and the proxy mask before anything leaves the process, whatever the capture mode; the analyzer masks again what
// came in another way. Masking what is masked changes nothing, so twice is once.
//
// # The rules
//
// They are written down in ingest/sdk/testdata/redact.json, with the words they know and with cases; hooks in other
// languages follow that file, and every language is tested with its cases. In short: keys by their prefix (sk-, AIza, AKIA,
// gsk_ …) keep it, so that texts still group by what they say; what follows Bearer, Basic, a name such as api_key, or
// Cookie goes; so do passwords in URLs, JWTs, PEM private keys, identities in ARNs, ids of accounts, users and requests,
// and mail addresses.
//
// # What stays
//
// Everything that says what is wrong with a request: names of fields, roles and functions, ids of calls and items, and
// what the provider quotes of the request. A word that might be English is no secret: org-wide, request_too_large and
// "Bearer authentication" stay. Names of people, telephone numbers and postal addresses are not recognised.
//
// # Contents
//
// What bodies hold is masked by Contents, before it is stored: only what is surely a secret or personal, since the rest is
// evidence. Telephone numbers without a country's code are known only as North Americans write them.
//
// # Why by hand
//
// During an incident every answer is an error, and each is masked twice. Append is one pass over a table of character
// classes: it takes 4 to 5 ns a byte, allocates nothing once dst is large enough, and is linear whatever the text is.
//
// Contents are most of what an analyzer reads. A secret has a byte, with the one before it, that few others have: a bit for
// each of 64 pairs is looked up without a branch, and then a few percent of them are looked at. That is 500 MB/s of code
// on a core, 1,000 of images and hashes, 400 of logs, which are numbers; by one byte after the other it was half of that,
// for the processor guessed wrong (go test -run - -bench . ./ingest/event/redact, MB/cpu-s).
package redact

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
// evidence. It looks at a few percent of the bytes, those that a secret may have behind the one before.
//
// # Why by hand
//
// During an incident every answer is an error, and each is masked twice. One pass over a table of character classes
// takes 4 to 5 ns a byte, allocates nothing once dst is large enough, and is linear whatever the text is
// (go test -run - -bench . ./ingest/event/redact).
package redact

// Package redact masks credentials and personal data.
//
// Append masks the error texts of providers, JSON or not, complete or truncated:
//
//	Incorrect API key provided: sk-proj-Ab12…xyz. See https://bob:hunter2@example.com   (user jane@example.com)
//	                                 │ Append
//	                                 v
//	Incorrect API key provided: sk-***. See https://***@example.com   (user ***@***)
//
// Hooks and the proxy mask error texts before they leave the process, in every capture mode; the analyzer masks those of
// other sources. Masking is idempotent.
//
// # Rules
//
// ingest/sdk/testdata/redact.json specifies the rules with their word lists and test cases; hooks in all languages are
// tested with these cases. In short: keys keep their known prefix (sk-, AIza, AKIA, gsk_ …), so that texts can still be
// grouped; values after Bearer, Basic, Cookie or a name such as api_key are masked, as are passwords in URLs, JWTs, PEM
// private keys, identities in ARNs, ids of accounts, users and requests, and mail addresses.
//
// # What is kept
//
// Everything that explains the error of a request: names of fields, roles and functions, ids of calls and items, and
// quotes of the request. A word that may be English is not a secret: org-wide, request_too_large and "Bearer
// authentication" are kept. Names of people, phone numbers and postal addresses are not recognized.
//
// # Bodies
//
// A Redactor masks bodies before they are stored. It masks only certain secrets and personal data, since the rest is
// evidence. Phone numbers without a country code are recognized only in North American notation.
//
// # Why no regular expressions
//
// During an incident every response is an error, and each is masked twice. Append is a single pass over a table of
// character classes: it takes 4 to 5 ns per byte, does not allocate if dst is large enough, and is linear for any text.
//
// Bodies are most of what an analyzer reads. Every secret contains a byte that is rare in combination with the byte
// before it: a Redactor looks up one bit for each of 64 pairs without branches, and examines only the few percent that
// remain. This reaches 500 MB/s on code per core, 1,000 on images and hashes, and 400 on logs, which are full of numbers;
// examining byte by byte was half as fast because of branch mispredictions (go -C
// ingest/event test -run - -bench . ./redact, MB/cpu-s).
package redact

// Package lint checks recorded message histories against the rules of package rules.
//
//	file ─> Linter.File ─> values ─> record: which dialect, which judge, which body
//	                                    │
//	                                    └─> scan, rules ─> Result ─> Printer: text, jsonl, github, sarif
//
// A value is recognised by itself: a request body, a bare array of messages, an exchange, a conversation, or an array of
// these. What cannot be read is a Result with an Error; it never stops the rest.
package lint

// Package lint checks recorded message histories against the rules of package rules.
//
//	file ─> records.Runs ─> record: target, request, answer ─> judge ─> Result ─> Printer: text, jsonl, github, sarif
//
// One goroutine reads batches of records, one per core reads and scans them, and the caller's judges exchanges and prints,
// in the order of the records.
//
// A value is a request body, a message array, an exchange, a conversation, or an array of these; its kind is detected. An
// unreadable value is a Result with an Error and never stops the run.
package lint

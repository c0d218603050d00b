// Package repair changes a message history that a provider refuses into one that it accepts, with as few changes as possible.
//
//	request ─> facts ─> check: violations ─> fixers: the first rule that can be repaired ─> operations ─> request ─> …
//
// The order of the fixers matters: ids before the order of messages, and both before missing replies, because a reply is
// missing only if none can be found. After the operations of one rule the request is checked again, because a repair may show
// or cause another violation, such as two user messages in a row. The loop ends when no violation is left that a fixer can
// repair, so a second repair changes nothing.
//
// # Why JSON patches
//
// Operations are those of JSON Patch (RFC 6902) and are applied to the text itself. All other bytes stay as they are, so that
// a healthy history does not change, cached prefixes stay valid up to the first change, and the patch can be applied to the
// history in the agent's own store.
//
// # What is not repaired
//
// A repair never invents what a model or a tool said. A call whose answer is not stored is not made up: its reply is removed.
// A reply that is missing is replaced by an error that says so. Signatures cannot be made, and a message cannot be written in
// the name of the model. Result.Left lists the violations for which there is no honest repair.
package repair

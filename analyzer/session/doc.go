// Package session is what is remembered of a conversation: its newest requests and answers as skeletons, the tool
// calls the model made, the defects seen, and from these the root cause of a defect. It is pure: time and order are
// those of the stream, so that the same events always lead to the same memory.
//
//	request Q ──> Store.Request ──> conversation ──> line (P and its answer A) ──> Turn
//	                                                                               │ Turn.RootCause(defect of Q)
//	answer  ────> Store.Answer  <──────────────────────────────────────────────────┘ Turn.Seen(id of the defect)
//
// A conversation is found by its given id, else by the answer that Q holds: a call id or an assistant text over 32
// bytes. A shared prompt links nothing, because users share templates. A conversation has one or more lines: agents,
// stages and forks that share its id but not their history. A line remembers only its newest request P and answer A;
// the calls and defects of older turns are remembered by the conversation.
//
// # Why skeletons
//
// A message is kept as 48 bytes of hashes and kinds, about 1 % of its body, and that is all that the two root causes
// need. No text is kept but call ids and tool names, so a conversation with secrets leaves none here.
//
// # Why bodies are compared without their leading system messages
//
// Many agents put the time or the stage's instructions there. Compared with them, no such request would ever continue
// the one before it.
package session

// Package session remembers conversations: their newest requests and answers as skeletons, the tool calls of the model, and
// the defects seen. From these it derives the root cause of a defect. It is pure: time and order are those of the stream,
// so the same events always lead to the same memory.
//
//	request Q ──> Store.Request ──> conversation ──> branch (P and its answer A) ──> Turn
//	                                                                                 │ Turn.RootCause(defect of Q)
//	answer  ────> Store.Answer  <────────────────────────────────────────────────────┘ Store.Instance(id of the defect)
//
// A conversation is found by its given id, else by the answer that Q contains: a call id or an assistant text over 32
// bytes. A shared prompt links nothing, because users share templates. A conversation has one or more branches: agents,
// stages and forks that share its id but not their history. A branch remembers only its newest request P and answer A;
// the conversation remembers the calls and defects of older turns.
//
// # Why skeletons
//
// A message is stored as 48 bytes of hashes and kinds, about 1 % of its body, and root causes need no more. The only text
// stored is call ids and tool names, so a conversation with secrets leaves none here.
//
// # Why bodies are compared without their leading system messages
//
// Many agents put the time or the stage's instructions there. Compared with them, no such request would ever continue
// the one before it.
package session

// Package content stores what bodies contain, each part once however often it is sent: messages, answers, and the rest of
// request bodies.
//
//	request ─> leading system messages, parameters ─> contents shared by all conversations
//	        └> messages ─> branch of the history ─> new positions, contents of the conversation
//	answer  ─> content of the conversation
//
// # How a history is stored
//
// A request is stored as what is new in it. Its messages after the leading system messages are positions of a branch of
// the conversation's history:
//
//	exchange 1   u1 a1 t1            branch 1: 0 u1, 1 a1, 2 t1
//	exchange 2   u1 a1 t1 a2 t2      branch 1: 3 a2, 4 t2
//	exchange 3   u1 a1 tX            branch 3, which shares 2 with branch 1: 2 tX
//
// A branch is named after the exchange that began it, so its positions never change: a history that was forgotten and is
// seen again begins a new one. An exchange names its branch and its number of messages, and in addition what does not
// grow with the history: the leading system messages, the rest of the body, and the messages with cache marks.
//
// # Why ids begin with a time
//
// An id is four bytes of time and the first 128 bits of the SHA-256 of the captured bytes. The time is the second in
// which the first request of the conversation was sent, so that a store that sorts by id keeps together what is read
// together, is similar and expires together: an answer and the message that the next request makes of it, conversations
// of one kind. For recorded traffic that takes half the space of an order by hash. What the conversations of an agent
// share, its prompts and tools, has time 0 and is stored once for all of them.
package content

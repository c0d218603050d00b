// Package content stores the contents of bodies, each part once even if it is sent often: messages, answers, and the
// rest of request bodies.
//
//	request ─> leading system messages, parameters ─> contents shared by all conversations
//	        └> messages ─> branch of the history ─> new positions, contents of the conversation
//	answer  ─> content of the conversation
//
// # How a history is stored
//
// Only the new parts of a request are stored. The messages after the leading system messages are positions of a branch
// of the conversation's history:
//
//	exchange 1   u1 a1 t1            branch 1: 0 u1, 1 a1, 2 t1
//	exchange 2   u1 a1 t1 a2 t2      branch 1: 3 a2, 4 t2
//	exchange 3   u1 a1 tX            branch 3, which shares 2 with branch 1: 2 tX
//
// The name of a branch is the exchange that began it, so its positions never change: if the store has dropped a
// history and sees it again, it begins a new branch. An exchange refers to its branch and its number of messages, and
// to the parts that do not grow with the history: the leading system messages, the rest of the body, and the messages
// with cache marks.
//
// # Why ids begin with a time
//
// An id consists of six bytes of time and the first 112 bits of the SHA-256 of the captured bytes. The time is the
// millisecond at which the first request of the conversation was sent. A store that sorts by id thus groups contents that
// are read together, are similar and expire together: an answer and the message that the next request makes of it, or
// calls of one kind that were made one after the other. For recorded traffic, this needs half the space of an order by
// hash. Contents that the conversations of an agent share, such as prompts and tools, have time 0 and are stored once for
// all of them.
package content

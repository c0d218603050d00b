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
//
// # Which texts are stored if a service is sampled
//
// Texts are most of the bytes: of recorded traffic 71 %, and 80 % with the positions of histories (TestStorage); of the demo,
// whose messages have few words, 43 %. So the rows of exchanges, tool calls, runs and findings are always stored, and every
// count is exact; a Sampler chooses the texts. It decides by the hash of the conversation's id, so that a conversation is
// stored as a whole, and each process decides the same.
//
//	request ─> finding, or in the share ─> stored
//	        └> withheld: waits with its body ─> the call failed, or shows something ─> stored ─> so is the rest of the conversation
//	                                         └> dropped; the answer waits for the next request
//
// A request contains the history before it. To store that of a call that failed makes the earlier calls readable, too: their
// rows have the ids of their contents and their branch from the beginning. The history has their answers as the agent sent
// them back; what the model said in the last one, which the agent may have saved otherwise, is stored as it was, up to 64 KiB
// and while conversations use less than half of MaxStateBytes. Not stored is what only an earlier history of the conversation
// contains: messages that the agent has removed since. A call that shows something only after it is complete, because a tool
// never replies or the run reports a success, affects later calls only.
//
// Waiting bodies are as they were sent, perhaps compressed, and use at most a quarter of MaxStateBytes. A request that does
// not fit is stored. One that waits during an erasure is dropped, because it may be what is erased. BenchmarkProcess/sampled
// measures that to withhold a request costs no more than to store it.
//
// The texts of an hour of stream time are limited by their size as captured, in the order in which they arrive, for each
// partition: those of healthy calls by PerHour, those of others by twice as much. Counting them again lets a restart replay
// the hour, as far as the look-back allows.
package content

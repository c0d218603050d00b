// Package session remembers conversations: their newest requests and answers as skeletons, the tool calls of the model, and
// the defects seen. From these it derives the root cause of a defect. It is deterministic: it takes time and order only from
// the stream, so the same events always produce the same state.
//
//	request Q ──> Store.Request ──> conversation ──> branch (P and its answer A) ──> Turn
//	                                                                                 │ Turn.RootCause(defect of Q)
//	answer  ────> Store.Answer  <────────────────────────────────────────────────────┘ Store.Instance(id of the defect)
//
// A conversation is found by its given id, or else by an answer that Q names (previous_response_id) or contains, which is
// recognized by a call id or by an assistant text longer than 32 bytes. A shared prompt does not link requests, because users
// share templates. Without these, it is found by the process that sent Q:
//
//   - Q starts with the whole body of P and contains A; or it follows A within seconds, and no other conversation of the
//     service sent that body. Agents that validate answers, or save only the result of a structured output, send no A.
//   - Q ends with replies to the calls of A, or its user messages name the tools of A as another agent's, within seconds, and
//     no other pending answer of the process fits. Some agents write the history anew each turn or for each agent.
//
// If several conversations fit, Q belongs to none of them.
//
// A conversation has one or more branches: agents, stages and forks that share its id but not their history. A branch remembers
// only its newest request P and its answer A; the conversation remembers the calls and defects of older turns.
//
// # Why skeletons
//
// A message is stored as 48 bytes of hashes and kinds, about 1 % of its body, which is enough to find root causes. The only
// text stored is call ids and tool names, so the secrets of a conversation are not stored here.
//
// # Why bodies are compared without their leading system messages
//
// Many agents put the time or the instructions of a stage into the system message. If it were compared, no request of such an
// agent would continue the previous request.
package session

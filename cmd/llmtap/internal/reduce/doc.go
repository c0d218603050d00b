/*
Package reduce shortens a conversation step by step while the fault of its last request stays.

	Case: requests and answers ─> Faults: judge ─> Fault: rule, detail, root cause
	  │                                              │
	  └─> Reduce: without a part, judge again <──────┘
	        exchanges, messages, calls with their replies, parts, empty members, tools, parameters, texts

A part that occurs several times, such as a message that each request repeats, or a call in an answer, in the messages of later
requests and in a reply, is removed from all places at once, so the requests still continue each other.

# What is not reduced

A regression test gives the answers of the case to the agent, and the agent must make its error again. Some errors depend on the
number of messages or calls, which the finding does not show: an agent that keeps the last ten messages, or answers at most two
calls, makes no error in a shorter conversation. For their root causes, these parts stay.

# Bounds

Reduce is deterministic and judges at most 2,000 candidates of at most 64 MiB in all; a larger case is reduced less.
*/
package reduce

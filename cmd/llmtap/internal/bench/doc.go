/*
Package bench measures llmtap with the calls of a seeded fleet of agents.

	fleet ──> NATS ──> llmtap ──> ClickHouse <── Is this call queryable?     (prober)
	                      └─────> webhook    <── Has this failure an alert?  (canary)

A phase publishes at one rate, waits until everything is stored, and returns a Measurement. Without a rate, the search doubles
the rate until a phase leaves a backlog, then bisects; phases over the whole duration confirm or lower the result.

# What is measured

The measured processes are an llmtap of its own on free ports and a temporary directory. With Options.Analyzers, NATS,
ClickHouse, the alert role and each analyzer are processes of their own, so that the CPU time of each is known, and N
analyzers share the partitions. With given servers, only the load itself is measured as a process.

A call is published when both of its events are acknowledged by JetStream. It is stored when a query finds it. At the end of a
phase, the ids of all published calls are compared with the ids in the store: what is missing is lost, what is there twice is
double.

# When a rate is sustained

Rows are written in batches of up to 3 seconds, so the backlog rises and falls by as much all the time, and its slope says
little in a few seconds. A rate is sustained if all calls are stored within 5 seconds of the last one: what llmtap is too slow
by adds up over the phase and has to be stored after it. In a phase of 10 seconds this tolerates 15 %, in one of 30 seconds
5 %; therefore the phases after the search are longer, and search again below its result if that is too high.
*/
package bench

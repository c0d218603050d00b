/*
Package regression writes the fault of a stored exchange as a test for the repository of the agent.

	show.Store.Case ─> reduce.Reduce ─> the answers of the model ─> template: pytest.tmpl, go.tmpl

The test runs the agent against a provider on loopback that returns the recorded answers of the model, in order. The requests that
the agent sends are judged: by llmtap lint in pytest, by rules.Accepted in Go. So the test fails until the agent is fixed.

# Why the test does not contain the refused history

A refused history stays refused, whatever the agent does. What the agent controls is how it continues a conversation, and what it
needs for that are the answers of the model: it makes the rest of the history itself. The reduced history only decides which
answers are needed.
*/
package regression

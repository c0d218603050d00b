package toolreply

// A convention is a text with which the replies of a framework to calls of failed tools start or end. It is written as in JSON, so
// that no reply needs to be decoded.
type convention struct{ text, source string }

// starts are the texts at the start. A text that starts with another one in the list needs no entry of its own.
var starts = [...]convention{
	{`Error: `, "AutoGen; LangGraph; CrewAI; Microsoft.Extensions.AI; most tools without a framework"},
	{`Error:\n`, "smolagents"},
	{`Error executing tool`, "MCP's Python SDK (FastMCP); LangGraph; CrewAI"},
	{`Error invoking tool`, "LangGraph"},
	{`Error calling tool`, "FastMCP 2"},
	{`Input validation error: `, "MCP's Python SDK"},
	{`Unknown tool: `, "MCP's Python SDK"},
	{`MCP error -`, "MCP's TypeScript SDK: a code of JSON-RPC follows"},
	{`An error occurred while running the tool.`, "OpenAI Agents SDK"},
	{`An error occurred while parsing tool arguments.`, "OpenAI Agents SDK"},
	{`Encountered error: `, "LlamaIndex"},
	{`I encountered an error while trying to use the tool.`, "CrewAI"},
	{`I encountered an error: `, "CrewAI"},
	{`<tool_use_error>`, "Claude Code"},
	{`\u003ctool_use_error\u003e`, "Claude Code, as Go encodes it"},
	{`Traceback (most recent call last):`, "Python"},
}

// ends are the texts at the end.
var ends = [...]convention{
	{`\nFix the errors and try again.`, "Pydantic AI"},
	{`\n Please fix your mistakes.`, "LangGraph"},
	{`If you have retried several times, try a completely different approach.`, "smolagents"},
}

package toolreply

// A convention is a text with which the replies of a framework to calls of failed tools begin or end.
type convention struct {
	text   string
	end    bool   // they end with it
	source string // who writes it
}

// conventions are the texts. A text that begins with a longer one in the list needs no entry of its own.
var conventions = [...]convention{
	{"Error: ", false, "AutoGen; LangGraph; CrewAI; Microsoft.Extensions.AI; most tools without a framework"},
	{"Error:\n", false, "smolagents"},
	{"Error executing tool", false, "MCP's Python SDK (FastMCP); LangGraph; CrewAI"},
	{"Error invoking tool", false, "LangGraph"},
	{"Error calling tool", false, "FastMCP 2"},
	{"Input validation error: ", false, "MCP's Python SDK"},
	{"Unknown tool: ", false, "MCP's Python SDK"},
	{"MCP error -", false, "MCP's TypeScript SDK: a code of JSON-RPC follows"},
	{"An error occurred while running the tool.", false, "OpenAI Agents SDK"},
	{"An error occurred while parsing tool arguments.", false, "OpenAI Agents SDK"},
	{"Encountered error: ", false, "LlamaIndex"},
	{"I encountered an error while trying to use the tool.", false, "CrewAI"},
	{"I encountered an error: ", false, "CrewAI"},
	{"<tool_use_error>", false, "Claude Code"},
	{"Traceback (most recent call last):", false, "Python"},
	{"\nFix the errors and try again.", true, "Pydantic AI"},
	{"\n Please fix your mistakes.", true, "LangGraph"},
	{"If you have retried several times, try a completely different approach.", true, "smolagents"},
}

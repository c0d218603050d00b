package facts

import "bytes"

// Calls and outputs in the Responses API that are not those of a function or a custom tool. The agent runs these tools, too,
// and the provider pairs their outputs by call_id, as the names of its errors show: "No tool output found for local shell call",
// "No tool call found for tool search output". Sources: openai/openai-python, src/openai/types/responses/response_input_item_param.py;
// Azure-Samples/computer-use#22; microsoft/agent-framework#8663; diegosouzapw/OmniRoute#8946.

// isOtherCall reports whether items of this type are calls of such a tool.
func isOtherCall(typ []byte) bool {
	switch string(typ) {
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call":
		return true
	}
	return false
}

// isOtherOutput reports whether items of this type are outputs of such a tool.
func isOtherOutput(typ []byte) bool {
	switch string(typ) {
	case "local_shell_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output", "tool_search_output":
		return true
	}
	return false
}

// otherName returns the name of the tool of such a call or output: shell for shell_call and shell_call_output.
func otherName(typ []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(typ, []byte("_output")), []byte("_call"))
}

// mayBeCall reports whether an item of this type, which is not read as a call, may be one: the type is not known, or the item is
// not as documented. The known types are those of tools that the provider runs, which need no output from the agent, and those
// that are paired by other means than call_id.
func mayBeCall(typ []byte) bool {
	switch string(typ) {
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "tool_search_call",
		"mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "program", "program_output",
		"compaction", "compaction_summary", "compaction_trigger", "additional_tools", "function_call_output", "custom_tool_call_output":
		return false
	}
	return !isOtherOutput(typ)
}

// environment reads the environment of a shell call. Its type is local if the agent runs the shell; otherwise the shell is hosted,
// which means that the provider runs it in a container.
func (s *scanner) environment() (k Kind, hosted bool) {
	if k = s.kind(); k == Object {
		n := len(s.scratch)
		hosted = string(s.member("type")) != "local"
		s.scratch = s.scratch[:n]
		return k, hosted
	}
	s.skip()
	return k, false
}

// isServer steps over the value of execution and reports whether the provider runs the tool.
func (s *scanner) isServer() bool {
	n := len(s.scratch)
	word, _ := s.text()
	s.scratch = s.scratch[:n]
	return string(word) == "server"
}

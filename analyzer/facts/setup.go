package facts

// A Setup locates the parts of a request body that an agent usually sends unchanged with every request.
type Setup struct {
	System     Span        // the system prompt outside the messages; empty if there is none
	Tools      Span        // the declared tools; empty if there are none
	ToolsHash  uint64      // hash of the bytes of Tools
	Each       []Span      // the tools that Request.ToolCount counts, in order; see ToolName
	Parameters []Parameter // sampling and output parameters, in the order of the body
}

// A Span is the part body[Start:End] of a body.
type Span struct{ Start, End int }

// Of returns the bytes of the span.
func (p Span) Of(body []byte) []byte { return body[p.Start:p.End] }

// A Parameter is a member of a request that sets how the model answers, such as temperature. Members that are unique to
// a request or a user, such as seed, user and metadata, are not Parameters.
type Parameter struct {
	Name  string
	Value Span // raw JSON
}

// maxParameters limits the parameters of one Request; further ones are ignored.
const maxParameters = 32

// Setup returns the setup of the request, which is valid until the next scan.
func (f *Request) Setup() *Setup { return &f.setup }

// member reads the key of a member of a request and records the member if it is a Parameter.
func (f *Request) member(s *scanner) []byte {
	key := s.key()
	if name := parameterName(key); name != "" && len(f.setup.Parameters) < maxParameters && s.err == nil {
		f.setup.Parameters = append(f.setup.Parameters, Parameter{name, Span{s.i, s.i}})
		f.inParameter = true
	}
	return key
}

// nextMember ends the member read last and reports whether another one follows.
func (f *Request) nextMember(s *scanner) bool {
	if f.inParameter {
		f.setup.Parameters[len(f.setup.Parameters)-1].Value.End = s.i
		f.inParameter = false
	}
	return s.more('}')
}

// system reads the system prompt outside the messages.
func (f *Request) system(s *scanner) {
	start := s.i
	f.unmark(InSystem)
	if f.System = s.kind(); f.System == Array {
		f.systemBlocks(s)
	} else {
		s.skip()
	}
	f.setup.System = Span{start, s.i}
}

// systemBlocks reads the marks of a system prompt that is a list. In Bedrock's, a mark is a block of its own.
func (f *Request) systemBlocks(s *scanner) {
	i := 0
	for more := s.open(); more; more = s.more(']') {
		var m cacheMark
		for more := s.enter(Object); more; more = s.more('}') {
			switch string(s.key()) {
			case "cache_control", "cachePoint":
				m = s.cacheMark()
			default:
				s.skip()
			}
		}
		f.mark(m, InSystem, i, 0)
		i++
	}
}

// parameterName returns the name of the Parameter with this key, or "".
func parameterName(key []byte) string {
	switch string(key) {
	case "temperature":
		return "temperature"
	case "top_p":
		return "top_p"
	case "top_k":
		return "top_k"
	case "p":
		return "p"
	case "k":
		return "k"
	case "min_p":
		return "min_p"
	case "n":
		return "n"
	case "stop":
		return "stop"
	case "stop_sequences":
		return "stop_sequences"
	case "max_tokens":
		return "max_tokens"
	case "max_completion_tokens":
		return "max_completion_tokens"
	case "max_output_tokens":
		return "max_output_tokens"
	case "frequency_penalty":
		return "frequency_penalty"
	case "presence_penalty":
		return "presence_penalty"
	case "repetition_penalty":
		return "repetition_penalty"
	case "logprobs":
		return "logprobs"
	case "response_format":
		return "response_format"
	case "text":
		return "text"
	case "format":
		return "format"
	case "tool_choice":
		return "tool_choice"
	case "parallel_tool_calls":
		return "parallel_tool_calls"
	case "reasoning":
		return "reasoning"
	case "reasoning_effort":
		return "reasoning_effort"
	case "verbosity":
		return "verbosity"
	case "thinking":
		return "thinking"
	case "enable_thinking":
		return "enable_thinking"
	case "thinking_budget":
		return "thinking_budget"
	case "think":
		return "think"
	case "service_tier":
		return "service_tier"
	case "store":
		return "store"
	case "truncation":
		return "truncation"
	case "output_config":
		return "output_config"
	case "generationConfig", "generation_config":
		return "generation_config"
	case "inferenceConfig":
		return "inference_config"
	case "additionalModelRequestFields":
		return "additional_model_request_fields"
	case "safetySettings", "safety_settings":
		return "safety_settings"
	case "options":
		return "options"
	}
	return ""
}

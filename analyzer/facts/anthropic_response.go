package facts

func scanAnthropicResponse(_ string, _ []byte, r *Response) { r.Malformed = true }

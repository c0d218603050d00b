package facts

func scanBedrockResponse(_ string, _ []byte, r *Response) { r.Malformed = true }

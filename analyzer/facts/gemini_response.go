package facts

func scanGeminiResponse(_ string, _ []byte, r *Response) { r.Malformed = true }

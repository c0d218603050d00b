package facts

func scanResponsesResponse(_ string, _ []byte, r *Response) { r.Malformed = true }

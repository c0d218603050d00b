package wire

// AtTokenLimit reports whether a finish reason means that the answer was cut off at a token limit, either the
// request's maximum or the model's context size.
func AtTokenLimit(finishReason string) bool {
	switch finishReason {
	case "length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded", "ERROR_LIMIT", "error_limit":
		return true
	}
	return false
}

// Filtered reports whether a finish reason means that a filter of the provider withheld the answer, or its rest.
func Filtered(finishReason string) bool {
	switch finishReason {
	case "content_filter", "content_filtered", "guardrail_intervened", "sensitive", "ERROR_TOXIC",
		"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return true
	}
	return false
}

// RetryableStatus reports whether an HTTP status means that the same request may succeed later. All other statuses
// from 400 to 499 reject the request for its content.
func RetryableStatus(status int) bool {
	switch status {
	case 408, 409, 425, 429, 499: // 499 is used by nginx if the client closed the request
		return true
	}
	return status >= 500
}

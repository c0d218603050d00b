package wire

// AtTokenLimit reports whether a finish reason means that the answer ended at a limit of tokens: of the request's maximum
// or of the model's context.
func AtTokenLimit(finishReason string) bool {
	switch finishReason {
	case "length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded", "ERROR_LIMIT", "error_limit":
		return true
	}
	return false
}

// RetryableStatus reports whether an HTTP status says that the same request may succeed later. All other statuses from 400
// to 499 reject the request for its content.
func RetryableStatus(status int) bool {
	switch status {
	case 408, 409, 425, 429, 499: // 499 is nginx's: the client closed the request
		return true
	}
	return status >= 500
}

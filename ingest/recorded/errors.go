package recorded

import "fmt"

// A Reason is the cause of a RecordError.
type Reason string

// Reasons why a record is not imported.
const (
	NotJSON     Reason = "not_json"     // the line is not a JSON object
	NotExchange Reason = "not_exchange" // the object is not an exchange: no request, or a field of the wrong type
	BadBody     Reason = "bad_body"     // a body cannot be decoded from the stated encoding
	TooLong     Reason = "too_long"     // the record exceeds Config.MaxLine
	NotLLM      Reason = "not_llm"      // a HAR entry is not an LLM call
)

// A RecordError reports a record that is not imported. Reading may continue.
type RecordError struct {
	Source string // file:line, or file:entry of a HAR
	Reason Reason
	Err    error
}

func (e *RecordError) Error() string { return fmt.Sprintf("%s: %v", e.Source, e.Err) }

func (e *RecordError) Unwrap() error { return e.Err }

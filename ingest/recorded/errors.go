package recorded

import "fmt"

// A Reason says why a record is not imported.
type Reason string

// The reasons.
const (
	NotJSON     Reason = "not_json"     // the line is no JSON object
	NotExchange Reason = "not_exchange" // it is one, but no exchange: no request, or a field of a wrong type
	BadBody     Reason = "bad_body"     // a body that is not encoded as the record says
	TooLong     Reason = "too_long"     // over Config.MaxLine
	NotLLM      Reason = "not_llm"      // an entry of a HAR that is another kind of call
)

// A RecordError is one record that is not imported; the next one may be.
type RecordError struct {
	Source string // file:line, or file:entry of a HAR
	Reason Reason
	Err    error
}

func (e *RecordError) Error() string { return fmt.Sprintf("%s: %v", e.Source, e.Err) }

func (e *RecordError) Unwrap() error { return e.Err }

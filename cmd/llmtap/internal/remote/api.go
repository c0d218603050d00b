package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/dashboards/access"
)

// HeaderActor contains who acts, for requests whose body does not contain an author.
const HeaderActor = "Llmtap-Actor"

const (
	maxBody  = 64 << 10 // bytes of a request to the API of alerts
	maxActor = 256      // bytes of HeaderActor
)

// A RequestError is an error of a request to the API of alerts.
type RequestError struct {
	Status int // of HTTP
	Err    error
}

func (e *RequestError) Error() string { return e.Err.Error() }

func (e *RequestError) Unwrap() error { return e.Err }

// Actor returns who sends r: the person whom the listener knows, or else who says so.
func Actor(r *http.Request) alerts.Actor { return ActorOr(r, r.Header.Get(HeaderActor)) }

// ActorOr is Actor for a request that says otherwise who sends it.
func ActorOr(r *http.Request, says string) alerts.Actor {
	says = wording.Truncate(says, maxActor)
	access.Says(r.Context(), says)
	return alerts.Actor{ID: cmp.Or(access.From(r.Context()).Name, says), Via: "api"}
}

// ReadJSON decodes the body of r into v; what names it. A form of a web page cannot send JSON, and the guard refuses other requests
// of its scripts.
func ReadJSON(w http.ResponseWriter, r *http.Request, what string, v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &RequestError{http.StatusUnsupportedMediaType, errors.New("the Content-Type is not application/json")}
	}
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // only a test's recorder has no deadlines, also below
	body, err := io.ReadAll(access.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = deadlines.SetReadDeadline(time.Time{})
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return &RequestError{http.StatusBadRequest, fmt.Errorf("the body is not %s: %w", what, err)}
	}
	return nil
}

// WriteJSON sends v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`"the response cannot be encoded"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client has gone
}

// WriteError sends err as a JSON string, as Alertmanager does.
func WriteError(w http.ResponseWriter, err error) { WriteJSON(w, statusOf(err), err.Error()) }

func statusOf(err error) int {
	if e, ok := errors.AsType[*RequestError](err); ok {
		return e.Status
	}
	if _, ok := errors.AsType[*alerts.InvalidError](err); ok {
		return http.StatusBadRequest
	}
	if errors.Is(err, alerts.ErrNoSilence) || errors.Is(err, alerts.ErrNoProblem) {
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

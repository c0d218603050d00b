package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/webhook"
)

func signed(secret, body []byte, h http.Header) bool {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s", h.Get("X-Llmtap-Timestamp"), body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	sent, err := strconv.ParseInt(h.Get("X-Llmtap-Timestamp"), 10, 64)
	fresh := err == nil && time.Since(time.Unix(sent, 0)).Abs() < 5*time.Minute
	return hmac.Equal([]byte(want), []byte(h.Get("X-Llmtap-Signature"))) && fresh
}

// A receiver that checks each post, with the standard library alone.
func Example() {
	secret := []byte("a long random key, known to both")
	receive := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too long", http.StatusBadRequest)
			return
		}
		if !signed(secret, body, r.Header) {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		var m webhook.Message
		if err := json.Unmarshal(body, &m); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		fmt.Println(m.Status, m.CommonLabels["alertname"])
	}

	body := `{"version":"4","status":"firing","commonLabels":{"alertname":"StageFailureRate"}}`
	for _, key := range []string{"a long random key, known to both", "guessed"} {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		now := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set(webhook.HeaderTimestamp, now)
		r.Header.Set(webhook.HeaderSignature, webhook.Sign([]byte(key), now, []byte(body)))
		w := httptest.NewRecorder()
		receive(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// firing StageFailureRate
	// 200
	// 401
}

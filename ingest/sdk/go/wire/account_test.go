package wire

import (
	"net/http"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestAccount(t *testing.T) {
	const signature = "/20261129/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
	for _, x := range []struct{ name, value, query, want string }{
		{"Authorization", "Bearer sk-proj-1", "", "sk-proj-1\n\n"},
		{"Authorization", "bearer  gsk_1 ", "", "gsk_1\n\n"},
		{"X-Api-Key", "sk-ant-api03-1", "", "sk-ant-api03-1\n\n"},
		{"Api-Key", "0a1b2c", "", "0a1b2c\n\n"}, // Azure's keys have no prefix
		{"X-Goog-Api-Key", "AIza1", "", "AIza1\n\n"},
		{"", "", "alt=sse&key=AIza%31", "AIza1\n\n"},
		{"Authorization", "Bearer unknown", "key=AIza1", "AIza1\n\n"},
		{"Authorization", "AWS4-HMAC-SHA256 Credential=AKIA1" + signature, "", "AKIA1\n\n"},
		{"Authorization", "Bearer ABSK1", "", "ABSK1\n\n"},

		// What expires.
		{"Authorization", "AWS4-HMAC-SHA256 Credential=ASIA1" + signature, "", ""},
		{"Authorization", "Bearer bedrock-api-key-1", "", ""},
		{"Authorization", "Bearer eyJ0.eyJ1.2", "", ""},
		{"Api-Key", "eyJ0.eyJ1.2", "", ""},
		{"Authorization", "Bearer ya29.1", "", ""},
		{"X-Goog-Api-Key", "auth_tokens/1", "", ""},
		{"Authorization", "Bearer sk-ant-oat01-1", "", ""},
		{"X-Api-Key", "sk-ant-oat01-1", "", ""},
		{"Authorization", "Bearer 0a1b2c", "", ""}, // may be a token of a gateway
		{"X-Api-Key", "0a1b2c", "", ""},
		{"Authorization", "Basic sk-1", "", ""},
		{"Authorization", "sk-1", "", ""},
		{"", "", "monkey=1", ""},
	} {
		must.Equal(t, Account(http.Header{x.name: {x.value}}, x.query), x.want, "%s: %s, %s", x.name, x.value, x.query)
	}
	parts := http.Header{"Authorization": {"Bearer sk-1"}, "Openai-Organization": {"org"}, "Openai-Project": {"project"}}
	must.Equal(t, Account(parts, ""), "sk-1\norg\nproject", "with parts")
	parts.Del("Openai-Organization")
	must.Equal(t, Account(parts, ""), "sk-1\n\nproject", "with parts")
	parts.Del("Authorization")
	must.Equal(t, Account(parts, ""), "", "with parts")
}

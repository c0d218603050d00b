package slack

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/ingest/secret"
)

// Check asks Slack whose token it is, and posts nothing. It returns the names of the workspace and of the app's user.
func Check(ctx context.Context, cfg Config) (team, user string, err error) {
	if err := cfg.Validate(); err != nil {
		return "", "", err
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return "", "", err
	}
	api := slack.New(token, slack.OptionAPIURL(strings.TrimRight(cfg.APIURL, "/")+"/"), slack.OptionHTTPClient(&http.Client{Timeout: callTimeout}))
	answer, err := api.AuthTestContext(ctx)
	if err != nil {
		return "", "", fmt.Errorf("ask Slack about the token: %w", classify("auth.test", err).err)
	}
	return answer.Team, answer.User, nil
}

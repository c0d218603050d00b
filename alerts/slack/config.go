package slack

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/sent"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of the Slack notifier.
type Config struct {
	// Token is a bot token (xoxb-…) with the scope chat:write. With the scope channels:history (groups:history for a
	// private channel), a message in doubt is searched for instead of being posted again.
	Token     string `yaml:"token" secret:"all"`
	TokenFile string `yaml:"token_file"`
	// Channel is the id (C0123456789) or name (#alerts) of a channel. If it is a name, a message in doubt is posted
	// again.
	Channel string `yaml:"channel"`
	// Routes send groups to other channels and mention people. The first route that matches applies.
	Routes []Route `yaml:"routes"`
	// Mentions lists who is mentioned by severity, in addition to Route.Mention.
	Mentions map[string][]string `yaml:"mentions"`
	// AppToken is an app-level token (xapp-…) with the scope connections:write. With it, messages have buttons, whose
	// presses arrive over a connection that llmtap opens (Socket Mode).
	AppToken     string `yaml:"app_token" secret:"all"`
	AppTokenFile string `yaml:"app_token_file"`
	// Allowed lists the ids of the users (U…) and user groups (S…) who may acknowledge and silence alerts with buttons. If
	// it is empty, everyone in the app's workspace may.
	Allowed []string `yaml:"allowed"`
	// Content adds the texts of errors, which can quote messages, of services that publish whole bodies (capture full).
	Content bool `yaml:"content"`
	// APIURL is the base URL of Slack's API methods.
	APIURL string `yaml:"api_url"`
}

var _ alerts.NotifierConfig = Config{}

// Default returns a configuration without a token or a channel.
func Default() Config { return Config{APIURL: slack.APIURL} }

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if c.Token == "" && c.TokenFile == "" && c.Channel == "" && len(c.Routes) == 0 && len(c.Mentions) == 0 && !c.buttons() {
		return nil
	}
	var errs []error
	switch {
	case c.Token != "" && c.TokenFile != "":
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	case c.Token == "" && c.TokenFile == "":
		errs = append(errs, errors.New("token, token_file: set one of them to a bot token (xoxb-…)"))
	}
	if c.Channel == "" {
		errs = append(errs, errors.New("channel: is empty; set it to the id (C0123456789) or name (#alerts) of a channel"))
	}
	if _, err := c.routes(); err != nil {
		errs = append(errs, err)
	}
	if c.AppToken != "" && c.AppTokenFile != "" {
		errs = append(errs, errors.New("app_token, app_token_file: both are set; keep one"))
	}
	if len(c.Allowed) > 0 && !c.buttons() {
		errs = append(errs, errors.New("allowed: has no effect without buttons; set app_token_file, too"))
	}
	for i, id := range c.Allowed {
		if !allowedID.MatchString(id) {
			errs = append(errs, fmt.Errorf("allowed[%d]: %q is not the id of a user (U0123456789) or user group (S0123456789)", i, id))
		}
	}
	if err := endpoint.CheckURL(c.APIURL); err != nil {
		errs = append(errs, fmt.Errorf("api_url: %w", err))
	}
	return errors.Join(errs...)
}

// buttons reports whether messages have buttons.
func (c Config) buttons() bool { return c.AppToken != "" || c.AppTokenFile != "" }

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if err := c.Validate(); err != nil || c.Channel == "" {
		return nil, err
	}
	token, err := secret.Read(c.Token, "token_file", c.TokenFile)
	if err != nil {
		return nil, err
	}
	app, err := secret.Read(c.AppToken, "app_token_file", c.AppTokenFile)
	if err != nil {
		return nil, err
	}
	if app != "" && !strings.HasPrefix(app, "xapp-") {
		return nil, errors.New("app_token: is not an app-level token (xapp-…)")
	}
	routes, err := c.routes()
	if err != nil {
		return nil, err
	}
	o.SetDefaults()
	n := &Notifier{
		channel: c.Channel, routes: routes, mentions: c.Mentions, access: o.Access, groupBy: o.GroupBy, problem: o.Problem, allowed: c.Allowed, content: c.Content,
		appToken: app != "", turn: make(chan struct{}, 1), refused: map[string]time.Time{},
		poster: poster{
			limits: limits{limited: map[string]time.Time{}, rejected: map[string]rejection{}, ids: map[string]string{}, seconds: newLimitedFor(o.Registerer)},
			api: slack.New(token, slack.OptionAPIURL(strings.TrimRight(c.APIURL, "/")+"/"), slack.OptionHTTPClient(o.Client),
				slack.OptionAppLevelToken(app)),
			log: o.Logger,
		},
		records:   sent.New[*record](o.Store, "slack", "", o.Logger),
		summaries: summaries{records: sent.New[*summary](o.Store, "slack-summary", "", o.Logger)},
	}
	r := alerts.Receiver{Notifier: n, Destination: c.Channel, Check: n.check}
	if n.appToken && o.Controls != nil {
		n.socket = newSocket(n.api, &presser{
			controls: o.Controls, problems: o.Problems, allowed: newAllowList(c.Allowed, n.api), api: n.api, client: o.Client, access: o.Access, groupBy: o.GroupBy,
			log: o.Logger, m: newMetrics(o.Registerer), now: time.Now,
		})
		r.Serve = n.socket.serve
	}
	return []alerts.Receiver{r}, nil
}

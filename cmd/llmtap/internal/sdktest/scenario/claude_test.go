package scenario

import (
	"net/http"
	"net/url"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A turnOf is a message of a history in Anthropic's format.
type turnOf = anthropic.MessageParam

// A claudeAgent is an agent with Anthropic's client.
type claudeAgent struct {
	*agent
	client anthropic.Client
	params anthropic.MessageNewParams
}

func (a *agent) claude() *claudeAgent {
	to := must.Get(url.Parse(a.server.URL))(a.t)
	c := &claudeAgent{agent: a}
	c.client = anthropic.NewClient(option.WithAPIKey("test"), option.WithMaxRetries(0), option.WithBaseURL("https://api.anthropic.com"),
		option.WithHTTPClient(&http.Client{Transport: a.hook.Transport(redirect{to})}))
	c.params = anthropic.MessageNewParams{Model: claude, MaxTokens: 2000}
	for _, name := range a.tools {
		c.params.Tools = append(c.params.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: name, InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"path": map[string]string{"type": "string"}}},
		}})
	}
	return c
}

// ask makes a call. An error looks like an answer without calls, as in the agents of the incidents.
func (a *claudeAgent) ask(history []turnOf) *anthropic.Message {
	p := a.params
	p.Messages = history
	m, err := a.client.Messages.New(a.ctx, p)
	if err != nil {
		return new(anthropic.Message)
	}
	return m
}

// stream makes a streamed call.
func (a *claudeAgent) stream(history []turnOf) *anthropic.Message {
	p := a.params
	p.Messages = history
	s := a.client.Messages.NewStreaming(a.ctx, p)
	defer s.Close()
	m := new(anthropic.Message)
	for s.Next() {
		if m.Accumulate(s.Current()) != nil {
			break
		}
	}
	return m
}

// results returns the tool_result blocks for all calls of m.
func results(m *anthropic.Message) (list []anthropic.ContentBlockParamUnion) {
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			list = append(list, anthropic.NewToolResultBlock(b.ID, b.Name+" did "+string(b.Input)+" for "+b.ID, false))
		}
	}
	return list
}

// textOf returns the text blocks of m.
func textOf(m *anthropic.Message) (list []anthropic.ContentBlockParamUnion) {
	for _, b := range m.Content {
		if b.Type == "text" {
			list = append(list, anthropic.NewTextBlock(b.Text))
		}
	}
	return list
}

func asks(text string) turnOf { return anthropic.NewUserMessage(anthropic.NewTextBlock(text)) }

package slack

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	api "github.com/slack-go/slack"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// start returns a workspace and the real client.
func start(t *testing.T, token string) (*Server, *api.Client) {
	t.Helper()
	s := New(Config{Channels: []string{"general", "alerts"}})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, api.New(token, api.OptionAPIURL(srv.URL+"/api/"))
}

func section(text string) *api.SectionBlock {
	return api.NewSectionBlock(api.NewTextBlockObject(api.MarkdownType, text, false, false), nil, nil)
}

func TestPostUpdateThread(t *testing.T) {
	s, c := start(t, "xoxb-1")
	ctx := t.Context()
	who, err := c.AuthTestContext(ctx)
	if err != nil || who.Team != "Demo" {
		t.Fatalf("auth.test: %+v, %v", who, err)
	}
	before := time.Now()
	meta := api.SlackMetadata{EventType: "llmtap_alert", EventPayload: map[string]any{"notice": "n1"}}
	channel, ts, err := c.PostMessageContext(ctx, "#alerts", api.MsgOptionText("fallback", false), api.MsgOptionBlocks(section("*firing*")), api.MsgOptionMetadata(meta))
	must.Do(t, err)
	must.Equal(t, channel, "C00000002", "channel")
	if _, _, err := c.PostMessageContext(ctx, channel, api.MsgOptionText("more", false), api.MsgOptionTS(ts)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.UpdateMessageContext(ctx, channel, ts, api.MsgOptionText("fallback", false), api.MsgOptionBlocks(section("*resolved*"))); err != nil {
		t.Fatal(err)
	}

	ms := s.Messages()
	if len(ms) != 2 || ms[0].ReceivedAt.Before(before) || ms[0].Updates != 1 || ms[1].ThreadTS != ts || Text(ms[0]) != "resolved\n" {
		t.Errorf("messages %+v", ms)
	}
	h, err := c.GetConversationHistoryContext(ctx, &api.GetConversationHistoryParameters{ChannelID: channel, IncludeAllMetadata: true})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Metadata.EventPayload["notice"] != "n1" {
		t.Errorf("history %+v, %v", h, err)
	}
	thread, _, _, err := c.GetConversationRepliesContext(ctx, &api.GetConversationRepliesParameters{ChannelID: channel, Timestamp: ts})
	if err != nil || len(thread) != 2 || thread[1].Text != "more" {
		t.Errorf("replies %+v, %v", thread, err)
	}
	link, err := c.GetPermalinkContext(ctx, &api.PermalinkParameters{Channel: channel, Ts: ts})
	if err != nil || !strings.HasSuffix(link, "/C00000002/p"+strings.ReplaceAll(ts, ".", "")) {
		t.Errorf("permalink %s, %v", link, err)
	}
	channels, _, err := c.GetConversationsContext(ctx, &api.GetConversationsParameters{})
	if err != nil || len(channels) != 2 || channels[1].Name != "alerts" {
		t.Errorf("channels %+v, %v", channels, err)
	}
}

func TestRefusals(t *testing.T) {
	_, c := start(t, "xoxb-1")
	_, stranger := start(t, "secret")
	f := func(c *api.Client, channel, want string, options ...api.MsgOption) {
		t.Helper()
		_, _, err := c.PostMessageContext(t.Context(), channel, options...)
		must.Equal(t, fmt.Sprint(err), want, "error")
	}
	text := api.MsgOptionText("x", false)
	f(stranger, "alerts", "invalid_auth", text)
	f(c, "nowhere", "channel_not_found", text)
	f(c, "alerts", "no_text")
	f(c, "alerts", "thread_not_found", text, api.MsgOptionTS("1.1"))
	f(c, "alerts", "invalid_blocks", api.MsgOptionBlocks(section(strings.Repeat("x", 3001))))
	f(c, "alerts", "invalid_blocks", api.MsgOptionBlocks(api.NewHeaderBlock(api.NewTextBlockObject(api.PlainTextType, strings.Repeat("x", 151), false, false))))
	f(c, "alerts", "invalid_blocks", api.MsgOptionBlocks(&api.ContainerBlock{Type: "container", ChildBlocks: api.Blocks{BlockSet: []api.Block{section("no title")}}}))
	_, _, _, err := c.UpdateMessageContext(t.Context(), "alerts", "1.1", text)
	must.Equal(t, fmt.Sprint(err), "message_not_found", "error")
	must.Equal(t, fmt.Sprint(must.Err(c.GetTeamInfoContext(t.Context()))), "unknown_method", "error")
}

func TestText(t *testing.T) {
	s, c := start(t, "xoxb-1")
	plain := func(s string) *api.TextBlockObject { return api.NewTextBlockObject(api.PlainTextType, s, true, false) }
	md := func(s string) *api.TextBlockObject { return api.NewTextBlockObject(api.MarkdownType, s, false, false) }
	button := api.NewButtonBlockElement("ack", "1", plain("Acknowledge"))
	_, _, err := c.PostMessageContext(t.Context(), "alerts", api.MsgOptionBlocks(
		api.NewHeaderBlock(plain(":red_circle: planner fails")),
		api.NewSectionBlock(md("*41 of 90 calls* failed _now_, see <http://127.0.0.1:8080/x|the page> &amp; `tool_calls`"), []*api.TextBlockObject{md("*Since*\n12:00"), md("*Version*\n2.4.0")}, nil),
		section("Message 3 is\n```\n{\"role\": \"tool\"}\n```"),
		api.NewDividerBlock(),
		api.NewContextBlock("", md("rule `orphan_tool_reply`"), md("a_b_c <!here>")),
		api.NewActionBlock("", button),
		&api.ContainerBlock{Type: "container", Title: plain("Details"), IsCollapsible: true, ChildBlocks: api.Blocks{BlockSet: []api.Block{section("*Versions*")}}},
	))
	must.Do(t, err)
	want := `🔴 planner fails
═══════════════

41 of 90 calls failed now, see the page (http://127.0.0.1:8080/x) & ` + "`tool_calls`" + `
Since                               Version
12:00                               2.4.0

Message 3 is
    {"role": "tool"}
────────────────────────────────────────────────────────────
rule ` + "`orphan_tool_reply`" + `  a_b_c @here

[ Acknowledge ]

▸ Details
Versions
`
	must.Agree(t, cmp.Diff(want, Text(s.Messages()[0])), "text")
}

func TestTextOfAttachments(t *testing.T) {
	s, c := start(t, "xoxb-1")
	_, _, err := c.PostMessageContext(t.Context(), "alerts", api.MsgOptionText("*above*", false),
		api.MsgOptionAttachments(api.Attachment{Color: "#f00", Blocks: api.Blocks{BlockSet: []api.Block{section("*inside*")}}}, api.Attachment{Title: "T", Text: "old"}))
	must.Do(t, err)
	must.Agree(t, cmp.Diff("above\n┃ inside\n┃ T\n┃ old\n", Text(s.Messages()[0])), "text")
}

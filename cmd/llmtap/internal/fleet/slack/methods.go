package slack

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// channel returns the index of the channel named in args.
func (s *Server) channel(args url.Values) (i int, err error) {
	want := strings.TrimPrefix(args.Get("channel"), "#")
	for i, name := range s.cfg.Channels {
		if want == name || want == channelID(i) {
			return i, nil
		}
	}
	return 0, refusal("channel_not_found")
}

func channelID(i int) string { return fmt.Sprintf("C%08d", i+1) }

// content reads the content of a message and rejects content that Slack would reject.
func content(args url.Values) (Message, error) {
	m := Message{Text: args.Get("text"), Blocks: raw(args, "blocks"), Attachments: raw(args, "attachments"), Metadata: raw(args, "metadata")}
	if m.Text == "" && m.Blocks == nil && m.Attachments == nil {
		return m, refusal("no_text")
	}
	if len([]rune(m.Text)) > 40_000 {
		return m, refusal("msg_too_long")
	}
	if err := checkBlocks(m.Blocks); err != nil {
		return m, err
	}
	var attachments []attachment
	if m.Attachments != nil && json.Unmarshal(m.Attachments, &attachments) != nil {
		return m, refusal("invalid_attachments")
	}
	for _, a := range attachments {
		if err := checkBlocks(a.Blocks); err != nil {
			return m, err
		}
	}
	var metadata struct {
		EventType string          `json:"event_type"`
		Payload   json.RawMessage `json:"event_payload"`
	}
	if m.Metadata != nil && (json.Unmarshal(m.Metadata, &metadata) != nil || metadata.EventType == "" || metadata.Payload == nil) {
		return m, refusal("invalid_metadata_format")
	}
	return m, nil
}

func raw(args url.Values, key string) json.RawMessage {
	if v := args.Get(key); v != "" && v != "null" && v != "[]" {
		return json.RawMessage(v)
	}
	return nil
}

func (s *Server) post(args url.Values) (fields, error) {
	i, err := s.channel(args)
	if err != nil {
		return nil, err
	}
	m, err := content(args)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	m.Channel, m.ReceivedAt = channelID(i), time.Now()
	if m.ThreadTS = args.Get("thread_ts"); m.ThreadTS != "" && s.find(m.Channel, m.ThreadTS) == nil {
		s.mu.Unlock()
		return nil, refusal("thread_not_found")
	}
	s.last = max(s.last+1, m.ReceivedAt.UnixMicro()) // no two messages share a TS
	m.TS = fmt.Sprintf("%d.%06d", s.last/1e6, s.last%1e6)
	stored := m
	s.messages = append(s.messages, &stored)
	s.mu.Unlock()
	s.tell(m)
	return fields{"channel": m.Channel, "ts": m.TS, "message": m.wire()}, nil
}

func (s *Server) update(args url.Values) (fields, error) {
	i, err := s.channel(args)
	if err != nil {
		return nil, err
	}
	next, err := content(args)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	m := s.find(channelID(i), args.Get("ts"))
	if m == nil {
		s.mu.Unlock()
		return nil, refusal("message_not_found")
	}
	m.Text, m.Blocks, m.Attachments = next.Text, next.Blocks, next.Attachments
	if next.Metadata != nil {
		m.Metadata = next.Metadata
	}
	m.UpdatedAt = time.Now()
	m.Updates++
	now := *m
	s.mu.Unlock()
	s.tell(now)
	return fields{"channel": now.Channel, "ts": now.TS, "text": now.Text, "message": now.wire()}, nil
}

func (s *Server) tell(m Message) {
	if s.cfg.OnPost != nil {
		s.cfg.OnPost(m)
	}
}

// find returns the message of a channel by its TS, or nil.
func (s *Server) find(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return m
		}
	}
	return nil
}

func (s *Server) permalink(args url.Values) (fields, error) {
	i, err := s.channel(args)
	if err != nil {
		return nil, err
	}
	ts := args.Get("message_ts")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(channelID(i), ts) == nil {
		return nil, refusal("message_not_found")
	}
	link := fmt.Sprintf("https://demo.slack.test/archives/%s/p%s", channelID(i), strings.ReplaceAll(ts, ".", ""))
	return fields{"channel": channelID(i), "permalink": link}, nil
}

func (s *Server) list() fields {
	var all []fields
	for i := range s.cfg.Channels {
		all = append(all, s.describe(i))
	}
	return fields{"channels": all, "response_metadata": fields{"next_cursor": ""}}
}

func (s *Server) info(args url.Values) (fields, error) {
	i, err := s.channel(args)
	if err != nil {
		return nil, err
	}
	return fields{"channel": s.describe(i)}, nil
}

func (s *Server) describe(i int) fields {
	return fields{"id": channelID(i), "name": s.cfg.Channels[i], "is_channel": true, "is_member": true, "is_archived": false, "is_private": false}
}

// person returns a user in this machine's time zone.
func person(id string) fields {
	name, offset := time.Now().Zone()
	return fields{"id": id, "name": "you", "team_id": teamID, "tz": time.Local.String(), "tz_label": name, "tz_offset": offset}
}

// history returns, in one page, the messages of a channel (newest first) or of a thread (oldest first).
func (s *Server) history(args url.Values, thread string) (fields, error) {
	i, err := s.channel(args)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if thread != "" && s.find(channelID(i), thread) == nil {
		return nil, refusal("thread_not_found")
	}
	metadata := args.Get("include_all_metadata") == "true" || args.Get("include_all_metadata") == "1"
	page := []fields{}
	for _, m := range s.messages {
		if m.Channel != channelID(i) || args.Get("oldest") > m.TS {
			continue
		}
		wire := m.wire()
		if !metadata {
			delete(wire, "metadata")
		}
		switch {
		case thread != "" && (m.TS == thread || m.ThreadTS == thread):
			page = append(page, wire)
		case thread == "" && m.ThreadTS == "":
			page = append([]fields{wire}, page...)
		}
	}
	return fields{"messages": page, "has_more": false, "response_metadata": fields{"next_cursor": ""}}, nil
}

// wire returns the message in Slack's format.
func (m *Message) wire() fields {
	f := fields{"type": "message", "subtype": "bot_message", "ts": m.TS, "text": m.Text, "bot_id": "B00000001", "user": "U00000001", "team": "T00000001"}
	for k, v := range map[string]json.RawMessage{"blocks": m.Blocks, "attachments": m.Attachments, "metadata": m.Metadata} {
		if v != nil {
			f[k] = v
		}
	}
	if m.ThreadTS != "" {
		f["thread_ts"] = m.ThreadTS
	}
	if m.Updates > 0 {
		f["edited"] = fields{"user": "U00000001", "ts": fmt.Sprintf("%d.000000", m.UpdatedAt.Unix())}
	}
	return f
}

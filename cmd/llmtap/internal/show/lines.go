package show

import (
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	pairsTitle = "calls and replies"
	lineValue  = 600 // maximum characters of a value in a Line
)

// A Line is a line of a comparison: '-' for what the model said, '+' for what the request contains instead, ' ' for both.
type Line struct {
	Mark byte
	Path string // of a field of a message; "" for a sentence
	Text string // the sentence, or the value of the field
}

// Lines returns the comparison of f as lines of any length: the diff of the messages, and the calls with their replies.
func (f *Finding) Lines() (diff, pairs []Line) {
	c := f.Comparison
	if c == nil {
		return nil, nil
	}
	v := &view{Style: &terminal.Style{}}
	diff, changes := c.outline(f)
	each(v.near(changes), func(i int) {
		diff = append(diff, Line{changes[i].mark, terminal.Line(changes[i].field().path), v.value(&changes[i], lineValue)})
	}, func(n int) {
		diff = append(diff, Line{Mark: ' ', Text: "… " + quantity.Plural(n, "unchanged field")})
	})
	return append(diff, c.faultyArguments()...), v.pairs(c)
}

// A Link is a call with its reply, as places in a request.
type Link struct {
	Call, CallPart   int // index of the message and of its part
	Reply, ReplyPart int
	Again            bool // the call already has another reply
}

// Links returns the replies of a request with their calls: a reply belongs to the nearest call before it with its id, or with
// its name if the dialect has no ids, that has no reply yet, else to the last one that has.
func Links(request []records.Message) (links []Link) {
	pending, answered := map[string][]Link{}, map[string]Link{}
	for i := range request {
		for j := range request[i].Parts {
			p := &request[i].Parts[j]
			id := name(p)
			switch waiting := pending[id]; {
			case id == "":
			case p.Kind == records.Call:
				pending[id] = append(waiting, Link{Call: i, CallPart: j})
			case p.Kind == records.Reply && len(waiting) > 0:
				at := len(waiting) - 1
				if p.ID == "" {
					at = 0 // replies without ids come in the order of the calls
				}
				l := waiting[at]
				l.Reply, l.ReplyPart = i, j
				links = append(links, l)
				pending[id], answered[id] = append(waiting[:at:at], waiting[at+1:]...), l
			case p.Kind == records.Reply:
				if l, ok := answered[id]; ok {
					l.Reply, l.ReplyPart, l.Again = i, j, true
					links = append(links, l)
				}
			}
		}
	}
	return links
}

// Plain returns the text of p, and reports whether only its shape is stored; the text is then a description of the shape.
func Plain(p *records.Part) (text string, shaped bool) {
	text = plain(p)
	return text, text != p.Text && strings.HasSuffix(text, " bytes)")
}

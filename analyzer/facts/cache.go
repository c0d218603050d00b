package facts

// A Cache is what a request says about the provider's prompt cache. Its texts are valid as long as Call.ID.
type Cache struct {
	// Marks are the places up to which the provider is asked to cache: cache_control in an object, prompt_cache_breakpoint, and
	// cachePoint in Bedrock's lists. Those of an element are in its order.
	Marks []Mark
	// Automatic reports that the request itself has cache_control: the provider marks its last block.
	Automatic     bool
	AutomaticHour bool   // this mark lasts for an hour
	OnlyMarks     bool   // prompt_cache_options.mode is explicit: without marks, nothing is cached
	Key           []byte // prompt_cache_key
	Retention     []byte // prompt_cache_retention, or prompt_cache_options.ttl
	Content       []byte // Gemini's cachedContent: the name of a cache whose content precedes that of the request

	ownBlocks bool // marks in messages are blocks of their own, as in Bedrock's
}

// A Mark is a place up to which a provider is asked to cache.
type Mark struct {
	Place Place
	Index int  // of the tool in Setup.Each, of the block of the system prompt, or of the message
	Part  int  // of the part in the message; 0 elsewhere
	Hour  bool // "ttl": "1h"
}

// Place is the element of a request in which a mark is.
type Place uint8

// The places. A system prompt among the messages is InMessages.
const (
	InTools Place = iota
	InSystem
	InMessages
)

// maxMarks limits the marks of one Request. Providers accept four, and OpenAI looks at the newest 50.
const maxMarks = 256

// Cache returns what the request says about the prompt cache, which is valid until the next scan.
func (f *Request) Cache() *Cache { return &f.cache }

// Marked reports whether the request marks anything.
func (c *Cache) Marked() bool { return c.Automatic || len(c.Marks) > 0 }

// BlocksTo returns the number of content blocks of the messages up to the mark m, which is InMessages, without the marks that
// are blocks of their own. A message whose content is not a list has one block.
func (f *Request) BlocksTo(m Mark) (blocks int) {
	for i := range f.Messages[:m.Index] {
		blocks += max(f.Messages[i].PartCount, 1)
	}
	blocks += m.Part + 1
	for _, other := range f.cache.Marks {
		if f.cache.ownBlocks && other.Place == InMessages && (other.Index < m.Index || other.Index == m.Index && other.Part <= m.Part) {
			blocks--
		}
	}
	return blocks
}

// A cacheMark is the value of a mark that was read.
type cacheMark struct{ set, hour bool }

// cacheMark reads the value of a mark: {"type": "ephemeral", "ttl": "1h"}. A value of another kind is no mark.
func (s *scanner) cacheMark() (m cacheMark) {
	m.set = s.kind() == Object
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) == "ttl" {
			m.hour = string(s.rawText()) == "1h"
		} else {
			s.skip()
		}
	}
	return m
}

// mark adds a mark that was read.
func (f *Request) mark(m cacheMark, place Place, index, part int) {
	switch {
	case !m.set:
	case len(f.cache.Marks) == maxMarks:
		f.Dropped++
	default:
		f.cache.Marks = append(f.cache.Marks, Mark{place, index, part, m.hour})
	}
}

// markPart adds a mark of a part of the current message.
func (f *Request) markPart(m cacheMark, part int) { f.mark(m, InMessages, len(f.Messages)-1, part) }

// unmark removes the marks in an element, because another value replaces it.
func (f *Request) unmark(place Place) {
	kept := f.cache.Marks[:0]
	for _, m := range f.cache.Marks {
		if m.Place != place {
			kept = append(kept, m)
		}
	}
	f.cache.Marks = kept
}

// unmarkMessage removes the marks in the current message.
func (f *Request) unmarkMessage() {
	for n := len(f.cache.Marks) - 1; n >= 0 && f.cache.Marks[n].Place == InMessages && f.cache.Marks[n].Index == len(f.Messages)-1; n-- {
		f.cache.Marks = f.cache.Marks[:n]
	}
}

// cacheOptions reads the members of a request of OpenAI that concern the cache, and reports whether key is one of them.
func (f *Request) cacheOptions(s *scanner, key []byte) bool {
	switch string(key) {
	case "prompt_cache_key":
		f.cache.Key, _ = s.text()
	case "prompt_cache_retention":
		f.cache.Retention, _ = s.text()
	case "prompt_cache_options":
		for more := s.enter(Object); more; more = s.more('}') {
			switch string(s.key()) {
			case "mode":
				f.cache.OnlyMarks = string(s.rawText()) == "explicit"
			case "ttl":
				f.cache.Retention, _ = s.text()
			default:
				s.skip()
			}
		}
	case "cache_control": // of gateways to Anthropic
		f.automatic(s)
	default:
		return false
	}
	return true
}

// automatic reads cache_control of a whole request.
func (f *Request) automatic(s *scanner) {
	m := s.cacheMark()
	f.cache.Automatic, f.cache.AutomaticHour = m.set, m.hour
}

// ToolName returns the name of a declared tool, the raw text of one of Setup.Each; "" if it has none.
func ToolName(tool []byte) string {
	s := scanner{b: tool}
	return string(s.toolName(2))
}

// toolName returns the name in the current value or, down to a depth, in its function, custom or toolSpec.
func (s *scanner) toolName(depth int) (name []byte) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch key := s.key(); {
		case string(key) == "name":
			name, _ = s.text()
		case depth > 1 && (string(key) == "function" || string(key) == "custom" || string(key) == "toolSpec"):
			if inner := s.toolName(depth - 1); name == nil {
				name = inner
			}
		default:
			s.skip()
		}
	}
	return name
}

package analyzer

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	maxSetups       = 4096 // entries of each map of setups; a full map is cleared
	maxToolNames    = 256  // names in Exchange.Tools
	maxSettingBytes = 80   // longer values of Exchange.Settings are replaced by a hash
)

// setups determines what requests contain besides their messages, so that a change of the prompt, the tools or the
// parameters can be dated. Rows with equal values share memory.
//
// Processes without a common LLMTAP_SHAPE_KEY hash the same text differently. The hashes of a shape are therefore computed
// without the text hashes in it: from its structure, its protocol values and the lengths of its texts.
type setups struct {
	prompts  map[uint64]uint64 // hash of captured bytes -> hash without text hashes
	tools    map[uint64]toolSet
	settings map[uint64]map[string]string
	values   map[string]string // attribute values -> redacted values
	strings  interner
	buf      []byte
}

type toolSet struct {
	hash  uint64
	names []string
}

func newSetups(strings interner) *setups {
	return &setups{
		prompts: map[uint64]uint64{}, tools: map[uint64]toolSet{}, settings: map[uint64]map[string]string{}, values: map[string]string{}, strings: strings,
	}
}

// put stores a value in m, and clears m first if it is full.
func put[K comparable, V any](m map[K]V, key K, v V) V {
	if len(m) >= maxSetups {
		clear(m)
	}
	m[key] = v
	return v
}

// read sets the setup of the request in e. lead is the number of leading system messages.
func (u *setups) read(e *Exchange, f *facts.Request, lead int, body []byte) {
	shape, setup := e.Capture == event.CaptureShape, f.Setup()
	e.PromptHash = u.prompt(f.Messages[:lead], setup.System.Of(body), body, shape)
	if len(f.Tools) > 0 {
		set, ok := u.tools[setup.ToolsHash]
		if !ok {
			set = put(u.tools, setup.ToolsHash, u.toolSet(f.Tools, setup.Tools.Of(body), shape))
		}
		e.ToolsHash, e.Tools = set.hash, set.names
	}
	e.Settings = u.parameters(setup.Parameters, body, shape)
}

// prompt returns the hash of the system prompt: that outside the messages and the leading system messages; 0 if there is
// none.
func (u *setups) prompt(lead []facts.Message, system, body []byte, shape bool) uint64 {
	if len(lead) == 0 && len(system) == 0 {
		return 0
	}
	key := xxh3.Hash(system)
	for i := range lead {
		key = bits.RotateLeft64(key, 1) ^ lead[i].Hash
	}
	if !shape {
		return key
	}
	hash, ok := u.prompts[key]
	if !ok {
		u.buf = appendStable(u.buf[:0], system, shape)
		for i := range lead {
			u.buf = appendStable(u.buf, body[lead[i].Start:lead[i].End], shape)
		}
		hash = put(u.prompts, key, xxh3.Hash(u.buf))
	}
	return hash
}

func (u *setups) toolSet(names [][]byte, tools []byte, shape bool) toolSet {
	u.buf = appendStable(u.buf[:0], tools, shape)
	set := toolSet{hash: xxh3.Hash(u.buf), names: make([]string, 0, min(len(names), maxToolNames))}
	for _, name := range names[:min(len(names), maxToolNames)] {
		set.names = append(set.names, u.strings.name(name))
	}
	return set
}

// parameters returns the parameters by name; nil if there are none.
func (u *setups) parameters(params []facts.Parameter, body []byte, shape bool) map[string]string {
	if len(params) == 0 {
		return nil
	}
	var key uint64
	for _, p := range params {
		key = bits.RotateLeft64(key, 1) ^ xxh3.HashSeed(p.Value.Of(body), xxh3.HashString(p.Name))
	}
	settings, ok := u.settings[key]
	if !ok {
		settings = make(map[string]string, len(params))
		for _, p := range params {
			u.buf = appendStable(u.buf[:0], p.Value.Of(body), shape)
			settings[p.Name] = setting(u.buf)
		}
		put(u.settings, key, settings)
	}
	return settings
}

// setting returns a short value as redacted JSON, and the hash of a long one.
func setting(value []byte) string {
	if len(value) > maxSettingBytes {
		return "#" + strconv.FormatUint(xxh3.Hash(value), 16)
	}
	return cause.Redact(value)
}

// attributes returns a copy of the attributes of ev, of which there are at most event.MaxAttrs, with credentials and personal data masked as in error texts.
func (u *setups) attributes(ev *event.Event) map[string]string {
	if len(ev.Attrs) == 0 {
		return nil
	}
	attrs := make(map[string]string, len(ev.Attrs))
	for k, v := range ev.Attrs {
		masked, ok := u.values[v]
		if !ok {
			masked = put(u.values, strings.Clone(v), limit.Text(cause.Redact([]byte(v)), event.MaxHeaderValue))
		}
		attrs[u.strings.string(k)] = masked
	}
	return attrs
}

// textHash is the length of the hash of a text or a key in a shape.
const textHash = 16

// appendStable appends b. If b is a part of a shape, the hashes of texts (~<bytes>:<hash>) and keys (k<hash>) are omitted.
func appendStable(dst, b []byte, shape bool) []byte {
	for shape {
		i := bytes.IndexAny(b, `~"`)
		if i < 0 {
			break
		}
		dst, b = append(dst, b[:i+1]...), b[i+1:]
		at := 0
		switch {
		case dst[len(dst)-1] == '"' && len(b) > 0 && b[0] == 'k':
			at = 1
		case dst[len(dst)-1] == '~':
			for at < len(b) && b[at] >= '0' && b[at] <= '9' {
				at++
			}
			if at == len(b) || b[at] != ':' {
				continue
			}
			at++
		default:
			continue
		}
		if isHash(b[at:]) {
			dst, b = append(dst, b[:at]...), b[at+textHash:]
		}
	}
	return append(dst, b...)
}

// isHash reports whether b begins with the hash of a text.
func isHash(b []byte) bool {
	if len(b) < textHash {
		return false
	}
	for _, c := range b[:textHash] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

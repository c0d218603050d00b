package promptcache

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Bounds of Changed.
const (
	maxChanged  = 1 << 20 // of a longer text only the place is told
	maxPlaces   = 16      // differences between two texts
	changeLine  = 64      // bytes before a difference in which words say what it is
	maxUserData = 80      // bytes
)

// Changed compares two texts of the same element: the raw JSON of a system prompt, or of a message. It returns where in the second
// one they first differ, and the class of what changes there, such as DetailTime; "" if it is unknown, or if more changed than
// texts of a known class. at is -1 if the texts are equal.
func Changed(before, after []byte) (at int, detail string) {
	if at = common(before, after); at == len(before) && at == len(after) {
		return -1, ""
	}
	if len(before) > maxChanged || len(after) > maxChanged {
		return at, ""
	}
	if endA, endB, ok := reordered(before, after, at); ok && bytes.Equal(before[endA:], after[endB:]) {
		return at, DetailKeyOrder
	}
	// Without the escapes, a word begins where it seems to, and JSON in a string is JSON.
	a, b := jsonscan.AppendText(nil, before), jsonscan.AppendText(nil, after)
	return at, class(a, b)
}

// class returns the class of what differs between two texts.
func class(a, b []byte) (first string) {
	var firm bool // the words before the first difference say what it is
	p := common(a, b)
	for place := 0; p < len(a) || p < len(b); place++ {
		detail, endA, endB := "", 0, 0
		if place < maxPlaces {
			detail, endA, endB = difference(a, b, p)
		}
		switch {
		case detail == "" && firm:
			return first
		case detail == "":
			return ""
		case place == 0:
			first, firm = detail, says(detail, lineBefore(b, p))
		case first == DetailDate && detail == DetailTime:
			first = DetailTime // a time of which the date changed too
		}
		a, b = a[endA:], b[endB:]
		p = common(a, b)
	}
	return first
}

// common returns the length of the prefix that a and b share, at the start of a character.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// difference returns the class of the first difference between a and b, which is at p, and its end in both; "" if it is unknown.
func difference(a, b []byte, p int) (detail string, endA, endB int) {
	if endA, endB, ok := reordered(a, b, p); ok {
		return DetailKeyOrder, endA, endB
	}
	words := lineBefore(b, p)
	digits := digitsAround(a, p) && digitsAround(b, p)
	for i := range kinds {
		k := &kinds[i]
		if !digits && k.is&prose == 0 { // quicker than to search for each
			continue
		}
		start, endA := k.at(a, p)
		startB, endB := k.at(b, p)
		if endA == 0 || endB == 0 || start != startB || endA <= p && endB <= p {
			continue
		}
		if detail = k.class(a[start:endA], b[start:endB], words); detail != "" && (detail != DetailCounter || counts(b, start, endB)) {
			return detail, endA, endB
		}
	}
	if endA, endB = userData(a, b, p, words); endA > 0 {
		return DetailUser, endA, endB
	}
	return "", 0, 0
}

// class returns the class of two texts of a kind after some words.
func (k *textKind) class(a, b, words []byte) string {
	user := userWords.Match(words)
	switch {
	case k.is&whole != 0 && bytes.Equal(timeOfDay(a), timeOfDay(b)):
		return DetailDate
	case k.is&bare != 0 && user: // the number of a user
		return ""
	case k.detail == DetailUUID && (digits(a) < 2 || digits(b) < 2 || k.is&bare != 0 && !idWords.Match(words)):
		return ""
	case k.detail == DetailUUID && user:
		return DetailUser
	}
	return k.detail
}

// timeOfDay returns what follows the date in a time in the notation of ISO 8601.
func timeOfDay(t []byte) []byte {
	if t[4] == '-' {
		return t[len("2006-01-02"):]
	}
	return t[len("20060102"):]
}

func digits(b []byte) (n int) {
	for _, c := range b {
		if isDigit(c) {
			n++
		}
	}
	return n
}

// A textKind is a notation of texts of a class.
type textKind struct {
	detail string
	is     kindFlags
	text   *regexp.Regexp
}

type kindFlags uint8

const (
	whole kindFlags = 1 << iota // a date with a time
	bare                        // a number that could be anything else
	prose                       // perhaps without digits
)

const (
	months   = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?:uary|ruary|ch|il|e|y|ust|tember|ober|ember)?`
	weekdays = `(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b`
)

// kinds are the notations in which a text is recognised. The first that is at the difference in both texts applies.
var kinds = []textKind{
	{DetailUUID, 0, regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)},
	{DetailTime, whole, regexp.MustCompile(`\d{4}-?[01]\d-?[0-3]\d[T ]?(?:[01]\d|2[0-3]):?[0-5]\d:?[0-5]\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?`)},
	{DetailTime, 0, regexp.MustCompile(`(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-6]\d(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?:Z|[+-]\d\d:?\d\d)?`)},
	{DetailTime, 0, regexp.MustCompile(`(?:1[0-2]|0?[1-9]) ?(?:[AaPp][Mm]|[AaPp]\.[Mm]\.)`)},
	{DetailTime, 0, regexp.MustCompile(`[0-2]?\d[時时点시] ?[0-5]?\d[分분]`)},
	{DetailTime, bare, regexp.MustCompile(`1[4-9]\d{8}(?:\d{9}|\d{6}|\d{3}|\.\d+)?`)}, // since 1970, from 2014 to 2033
	{DetailDate, 0, regexp.MustCompile(`(?:19|20)\d\d(?:-[01]?\d-[0-3]?\d|/[01]?\d/[0-3]?\d|\.[01]?\d\.[0-3]?\d)`)},
	{DetailDate, 0, regexp.MustCompile(`20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])`)},
	{DetailDate, 0, regexp.MustCompile(`[0-3]?\d(?:\.[01]?\d\.|/[0-3]?\d/|-[01]?\d-)(?:19|20)\d\d`)},
	{DetailDate, 0, regexp.MustCompile(`(?:(?:` + weekdays + `),? )?(?:the )?` + months + `\.? [0-3]?\d(?:st|nd|rd|th)?(?:,? (?:19|20)\d\d)?`)},
	{DetailDate, 0, regexp.MustCompile(`(?:(?:` + weekdays + `),? )?(?:the )?[0-3]?\d(?:st|nd|rd|th)?[ -]` + months + `\.?(?:,?[ -](?:19|20)\d\d)?`)},
	{DetailDate, prose, regexp.MustCompile(weekdays)},
	{DetailDate, 0, regexp.MustCompile(`(?:19|20)\d\d[年년] ?[01]?\d[月월] ?[0-3]?\d[日일]`)},
	{DetailUUID, bare, regexp.MustCompile(`[0-9a-f]{32}`)},
	{DetailUUID, 0, regexp.MustCompile(`0[0-9A-HJKMNP-TV-Z]{25}`)}, // ULID
	{DetailUUID, 0, regexp.MustCompile(`(?:req|request|sess|session|conv|conversation|thread|trace|run|chat|msg|call|resp|turn)[_-][0-9A-Za-z_-]{8,64}`)},
	{DetailUser, prose, regexp.MustCompile(`[0-9A-Za-z._%+-]+@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*\.[A-Za-z]{2,}`)},
	{DetailCounter, 0, regexp.MustCompile(`\d{1,3}(?:,\d{3})+|\d{1,9}(?:\.\d+)?`)},
}

// digitsAround reports whether there is a digit where at looks for a text.
func digitsAround(b []byte, p int) bool {
	return bytes.ContainsAny(b[max(p-2*maxUserData, 0):min(p+maxUserData, len(b))], "0123456789")
}

// at returns the text of this kind that contains b[p], or ends there; 0 if there is none.
func (k *textKind) at(b []byte, p int) (start, end int) {
	from := max(p-maxUserData, 0)
	for stop := max(from-maxUserData, 0); from > stop && b[from] != ' ' && b[from] != '\n'; {
		from--
	}
	for _, m := range k.text.FindAllIndex(b[from:min(p+maxUserData, len(b))], -1) {
		start, end = from+m[0], from+m[1]
		if start > p {
			break
		}
		if end >= p && isolated(b, start, end) {
			return start, end
		}
	}
	return 0, 0
}

// isolated reports whether b[start:end] is not a part of a longer word, number or version.
func isolated(b []byte, start, end int) bool {
	if start > 0 && (isWord(b[start-1]) || start > 1 && isDigit(b[start-2]) && isJoint(b[start-1])) {
		return false
	}
	return end == len(b) || !isWord(b[end]) && (end+1 == len(b) || !isDigit(b[end+1]) || !isJoint(b[end]))
}

func isWord(c byte) bool  { return c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isJoint(c byte) bool { return c == '.' || c == ':' || c == '_' }

const (
	userNouns  = `(?:user|customer|employee|patient|student|member|account|company|organi[sz]ation|tenant)(?:'s)?`
	userFields = `(?:e-?mail|phone|username|(?:first|last|full)[ _]?name|name|id|number)`
)

// Words that say what follows.
var (
	momentWords = regexp.MustCompile(`(?i)\b(?:date|time|datetime|timestamp|today|now|currently|clock|as of|generated|utc|gmt)\b|现在|当前|今天|日期|时间|現在|今日|時刻`)
	idWords     = regexp.MustCompile(`(?i)(?:\b|_)(?:id|uuid|guid|session|request|trace|conversation|thread|run|nonce)(?:\b|_)`)
	countBefore = regexp.MustCompile(`(?i)(?:\b(?:turn|step|iteration|attempt|round|message|request|call|token|retry|count|counter|budget|cost|spent|used|left|remaining)s?(?: (?:so far|left|remaining|used|spent))?(?: is| was| number| no\.?)?|[#№])[ :=#$"'(\[]*$`)
	countAfter  = regexp.MustCompile(`(?i)^(?: [a-z]+)? (?:left|remaining|used|so far|spent)\b`)
	userWords   = regexp.MustCompile(`(?i)(?:\b|_)(?:users?|customers?|employee|patient|student|member|account|tenant)(?:'s)?(?:\b|_)`)
	userLabel   = regexp.MustCompile(`(?i)(?:\b|_)(?:` + userNouns + `(?:[ _-]` + userFields + `)?|e-?mail|phone|username|(?:first|last|full)[ _]?name)["']?[:=>][ "'({]*(?:(?:name|id|e-?mail)["']?: ?["']?)?` +
		`|\b` + userNouns + ` ` + userFields + ` is ` +
		`|\b(?:(?:talk|speak)(?:ing)? (?:to|with)|chatting with|assisting|on behalf of) `)
)

// says reports whether words name the class of what follows them.
func says(detail string, words []byte) bool {
	switch detail {
	case DetailTime, DetailDate:
		return momentWords.Match(words)
	case DetailUUID:
		return idWords.Match(words)
	}
	return false
}

// lineBefore returns what is before b[p] in its line, at most changeLine bytes, without the role of a message.
func lineBefore(b []byte, p int) []byte {
	line := b[max(p-changeLine, 0):p]
	for _, start := range [...]string{"\n", `"content"`, `"text"`, `"parts"`} {
		if i := bytes.LastIndex(line, []byte(start)); i >= 0 {
			line = line[i+len(start):]
		}
	}
	return line
}

// counts reports whether a word beside the number b[start:end] says that it counts.
func counts(b []byte, start, end int) bool {
	after := b[end:min(end+changeLine/2, len(b))]
	if i := bytes.IndexByte(after, '\n'); i >= 0 {
		after = after[:i]
	}
	words := lineBefore(b, start)
	return !userWords.Match(words) && (countBefore.Match(words) || countAfter.Match(after))
}

// userData returns the ends of names and the like that differ at p, after a label that says so; 0 if there are none.
func userData(a, b []byte, p int, words []byte) (endA, endB int) {
	label := userLabel.FindAllIndex(words, -1)
	if len(label) == 0 {
		return 0, 0
	}
	start := p - len(words) + label[len(label)-1][1]
	endA, endB = valueEnd(a, p), valueEnd(b, p)
	for endA > p && endB > p && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	if !isName(a[start:endA]) || !isName(b[start:endB]) {
		return 0, 0
	}
	return endA, endB
}

// isName reports whether a text may be a name, an address or an id: a few words, with a capital letter or a digit, no sentence.
func isName(text []byte) bool {
	capital := false
	for i, c := range text {
		last := i+1 == len(text) || text[i+1] == ' '
		if c == '?' || c == '!' || c == ':' || last && (c == ',' || c == '.') {
			return false
		}
		capital = capital || c >= 'A' && c <= 'Z' || isDigit(c) || c == '@' || c >= utf8.RuneSelf
	}
	return capital && len(text) <= maxUserData && bytes.Count(text, []byte(" ")) < 5
}

// valueEnd returns the end of the line, of the value, or of the item of a list that contains b[p].
func valueEnd(b []byte, p int) int {
	end := len(b)
	if n := bytes.IndexAny(b[p:], "\n\"<>{}[]|;"); n >= 0 {
		end = p + n
	}
	if n := bytes.Index(b[p:end], []byte(", ")); n >= 0 {
		end = p + n
	}
	return end
}

// reordered reports whether a difference at p is in JSON objects that are equal but for the order of their keys, and returns the
// ends of these.
func reordered(a, b []byte, p int) (endA, endB int, ok bool) {
	if !inKey(b, p) { // where objects with other orders differ first
		return 0, 0, false
	}
	open := 0
	tries := 0
	for i := min(p, len(b)-1); i >= 0 && tries < 4 && p-i < maxReordered; i-- {
		switch b[i] {
		case '}':
			if i < p {
				open++
			}
		case '{':
			if open > 0 {
				open--
				continue
			}
			tries++
			x, endX := object(a, i)
			y, endY := object(b, i)
			if x != nil && y != nil && i+endX > p && i+endY > p && reflect.DeepEqual(x, y) && sameSize(a[i:i+endX], b[i:i+endY]) {
				return i + endX, i + endY, true
			}
		}
	}
	return 0, 0, false
}

// inKey reports whether b[p] may be in a key of a JSON object, or end it.
func inKey(b []byte, p int) bool {
	start := bytes.LastIndexByte(b[:p], '"')
	if start < 0 {
		return false
	}
	before := bytes.TrimRight(b[:start], " \t\r\n")
	return bytes.HasSuffix(before, []byte("{")) || bytes.HasSuffix(before, []byte(","))
}

// maxReordered bounds the size of what is before a difference in an object.
const maxReordered = 64 << 10

// object returns the JSON object that starts at b[i], and its length; nil if there is none.
func object(b []byte, i int) (v map[string]any, size int) {
	if i >= len(b) || b[i] != '{' {
		return nil, 0
	}
	d := json.NewDecoder(bytes.NewReader(b[i:]))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, 0
	}
	return v, int(d.InputOffset())
}

// sameSize reports whether two different JSON texts have the same size without white space, and are different without it.
func sameSize(a, b []byte) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return false
	}
	return x.Len() == y.Len() && !bytes.Equal(x.Bytes(), y.Bytes())
}

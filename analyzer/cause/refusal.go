package cause

import "bytes"

// refusals contains the words of refusals, for texts that also contain other sentences. A log with the line "tool_choice=auto"
// does not say that tool_choice was rejected.
var refusals = newIndex([]concept{
	{"identifier", "identifier"}, // set by scan.read
	{"envelope", "error:|errors:|error,|error}|exception:|detail:|details:|raw:|errormessage:|error_message:|api error|failed:|failure:"},
	{"refusal", "error|exception|fail|refus|reject|denied|deny|forbid|unauthor|unauthent|invalid|not$|not_|cannot|cant$|wont$|must|unable|unsupported|expect|requir|only|unknown|without|should|missing|illegal|unavailable|too$|too_|exceed|duplicate|violat|unrecogni|incorrect|empty|malformed|insufficient|undefined|disallow|prohibit|wrong|out of|overload|bad$|bad_|timed out|connection reset|reset by|reset before|disconnect|slow down|risk|blocked|flagged|disabled|suspend|expired|deprecat|retired|no such|no |limit reached|reached|throttl|please|try again|low$|overdue|arrear|unpaid|busy|aborted|panic|fatal|crash|lost|corrupt|mismatch|unmatched|orphan|conflict|unexpected|needs|need to|has to|have to|resulted in|at least|at most|more than|less than|greater than|larger than|longer than|between|instead|ensure|inappropriate|harmful|banned|locked|revoked|depleted|exhausted|broken|closed|terminated|unreachable|interrupted|extra input|extra field|trailing|unterminated|delimiter|twice|limited to|limit is|ran out|payment required|requests from|many requests|gateway time|abnormal|inactive|upgrade|inaccessible|unusable|mandatory|may not|used up|over the|but$|lacks|lack |were removed|absent|unresolved|unanswered|negative|ended$|newer|although|to another|unused|mutually|exclusive|supports up to|maximum number|minimum number|maximum of|supported values|incompatible|is null|before any|same id|consumed|maximum context length is|nonetype|out of|sensitive|prevented|stopped|limit exceeded"},
	{"refusalinside", "错误|失败|不|无|超|请|敏感|违规|风险|缺|未|已|欠|过|非法|异常|繁忙|禁|拒|必须"},
})

var (
	envelopeBit = uint64(1) << refusals.names["envelope"]
	refusalBits = envelopeBit | 1<<refusals.names["refusal"] | 1<<refusals.names["refusalinside"]
)

// classNames contains the ends of the names of exceptions, as in BadRequestError.
var classNames = [...][]byte{[]byte("error"), []byte("exception")}

// keepRefusals removes the concepts of the clauses of s, those of text, that contain no refusal. A clause in the envelope of an
// error is one.
func (s *scan) keepRefusals(text []byte) {
	var signs scan
	signs.read(refusals, text)
	for i := range s.clauses[:s.n] {
		end := len(text)
		if i+1 < s.n {
			end = int(s.from[i+1])
		}
		refuses := signs.clauses[i].has[0]&refusalBits != 0 || i > 0 && signs.clauses[i-1].has[0]&envelopeBit != 0
		for _, name := range classNames {
			refuses = refuses || bytes.Contains(text[s.from[i]:end], name)
		}
		if !refuses {
			s.clauses[i].has = conceptSet{}
		}
	}
}

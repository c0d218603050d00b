package event

import (
	"strconv"
	"strings"
)

// Limits of a Code, in bytes. With both, no value is longer than MaxHeaderValue, unless most characters are escaped.
const (
	MaxCodeFile     = 160
	MaxCodeFunction = 64
)

// A Code is a place in the code of an agent.
type Code struct {
	File     string // relative to the project, with slashes
	Line     int
	Function string // such as Agent.run; "" if unknown
}

// String returns c as in Event.Code: "core/agent.py:145 Agent.run". It retains the end of a long file and the start of a long
// function, and replaces spaces and colons of the function.
func (c Code) String() string {
	file, function := c.File, strings.Map(func(r rune) rune {
		if r == ' ' || r == ':' {
			return '_'
		}
		return r
	}, c.Function)
	if len(file) > MaxCodeFile {
		file = strings.ToValidUTF8(file[len(file)-MaxCodeFile:], "")
	}
	if len(function) > MaxCodeFunction {
		function = strings.ToValidUTF8(function[:MaxCodeFunction], "")
	}
	place := file + ":" + strconv.Itoa(c.Line)
	if function == "" {
		return place
	}
	return place + " " + function
}

// ParseCode is the inverse of Code.String. It returns false if s is not in its format.
func ParseCode(s string) (c Code, ok bool) {
	place := s
	if i := strings.LastIndexByte(s, ' '); i >= 0 && !strings.Contains(s[i:], ":") {
		place, c.Function = s[:i], s[i+1:]
	}
	i := strings.LastIndexByte(place, ':')
	if i <= 0 {
		return Code{}, false
	}
	line, err := strconv.ParseUint(place[i+1:], 10, 31)
	if err != nil || line == 0 {
		return Code{}, false
	}
	c.File, c.Line = place[:i], int(line)
	return c, true
}

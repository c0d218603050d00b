package scenario

// notYet are the scenarios that the analyzer does not see through yet, and why.
var notYet = map[string]string{
	"incident 4: the same, with tool events":                                "tool events are not read yet",
	"crashes while a tool runs, with tool events, and resumes the next day": "tool events are not read yet",
	"the user writes while a tool runs, with tool events":                   "tool events are not read yet",
}

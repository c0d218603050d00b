package slack

import "regexp"

var userID = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// mention returns the mention of a user, which Slack shows as the current name, or "" if id is not that of one.
func mention(id string) string {
	if userID.MatchString(id) {
		return "<@" + id + ">"
	}
	return ""
}

// Package msteams posts alert groups to a channel or chat of Microsoft Teams, through the webhook of a workflow ("Send webhook alerts to a
// channel" of the Workflows app, which replaced the connectors of Office 365). A post is an Adaptive Card in a message, as Alertmanager's
// msteamsv2 sends it.
//
// # Why there is a post for each change
//
// A webhook of Teams returns no id, and it can neither edit a message nor reply to one. So there is a post when a group fires, when
// something changes that people must know (another severity, cause or version, an acknowledgement, a silence, a reminder) and when it ends,
// but none for numbers. A later post begins with what has changed, and names the subject and the time of the first one.
//
// # What acceptance means
//
// Teams answers 202 before the workflow runs. A workflow that is broken, such as one whose owner has left, is visible in the run history of
// Power Automate only. After 408, 425, 429, 5xx or no response, the state at that time is posted; after 401, 403, 404 and 410 too, a minute
// later, because somebody must mend the workflow. Any other status is final.
package msteams

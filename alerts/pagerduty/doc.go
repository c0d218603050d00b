// Package pagerduty sends alert groups to PagerDuty, with its Events API v2. A group is an alert of PagerDuty, which is triggered
// when the group fires or changes, acknowledged when somebody acknowledges the group in llmtap, and resolved when it ends.
//
// A group that begins as a warning and becomes critical is another alert of PagerDuty from then on, because PagerDuty does not
// notify again of one that is open; the first one is resolved. What people do in PagerDuty does not reach llmtap.
//
// Status 202 accepts an event. After 408, 425, 429, 5xx or no response, the current state is sent again. PagerDuty joins events with
// the same dedup_key, so a repetition changes nothing. Any other status, such as 400 for an unknown routing key, is final.
package pagerduty

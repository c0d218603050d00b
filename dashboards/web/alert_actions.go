package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
)

const (
	// nameCookie is the cookie with the name of the person, who types it once.
	nameCookie = "llmtap_name"
	maxName    = 80
	nameTime   = 365 * 24 * time.Hour
	// untilTomorrow is the choice of a silence that ends tomorrow at 9:00 in the zone of the viewer.
	untilTomorrow = "tomorrow"
	maxSilence    = 90 * 24 * time.Hour
)

// silenceChoices are the offered lengths of a silence: a duration or untilTomorrow.
var silenceChoices = []Field{{"1 hour", "1h"}, {"4 hours", "4h"}, {"until tomorrow 9:00", untilTomorrow}}

// notices are the messages after an action, by the parameter done. %s is the end of a silence.
var notices = map[string]string{
	"acknowledged":   "Acknowledged: there are no reminders until a new incident. Notifications say who acknowledged it.",
	"unacknowledged": "The acknowledgement is withdrawn.",
	"silenced":       "Silenced until %s. The alert is still evaluated and stored.",
	"added":          "The silence is stored, until %s. Alerts that match it are evaluated and stored, but people are not notified.",
	"expired":        "The silence has ended. Alerts that still fire are sent.",

	"assigned":         "Stored. Notifications say who is assigned.",
	"fixed":            "Stored as fixed. If it is seen again in that version or a later one, it has regressed, and people are notified.",
	"ignored":          "Ignored until %s. It is still evaluated and stored.",
	"ignored-for-ever": "Ignored. It is still evaluated and stored.",
	"accepted":         "Stored as the new normal. What is usual follows in a minute, and the alert ends.",
	"saved":            "The view is saved for all.",
	"renamed":          "The view has its new name.",
	"deleted":          "The view is deleted.",

	"reopened": "Reopened: it is no longer fixed, and no longer ignored.",
}

// notice returns the message after an action, from the parameters with which act redirects, and removes them, so that links do
// not repeat it.
func notice(v *View) string {
	text := notices[v.Get("done")]
	if strings.Contains(text, "%s") {
		end, err := time.Parse(time.RFC3339, v.Get("end"))
		if err != nil { // not from act
			text = ""
		} else {
			at := v.At(end)
			text = fmt.Sprintf(text, at.Absolute()+" ("+at.Relative()+")")
		}
	}
	if v.Get("done") != "" {
		v.params.Del("done")
		v.params.Del("end")
	}
	return text
}

// SilenceChoices returns the offered lengths of a silence, as labels and values.
func (p *page) SilenceChoices() []Field { return silenceChoices }

// An outcome is what an action has done, for the message on the page to which the person returns.
type outcome struct {
	done string    // key of notices
	end  time.Time // of a silence that was made
}

// act answers a form that changes something, by a redirect to the page that the form names, or else to back. If nothing was done, it
// calls refuse with the reason, and with a request for back.
func (s *site) act(w http.ResponseWriter, r *http.Request, back string, do func(ctx context.Context, r *http.Request, by string) (outcome, error),
	refuse func(w http.ResponseWriter, r *http.Request, status int, reason string),
) {
	page := back
	if r.PostFormValue("back") != "" {
		page = local(r.PostFormValue("back"))
	}
	typed := field(r, "name")
	by := cmp.Or(access.From(r.Context()).Name, typed)
	access.Says(r.Context(), typed)
	var out outcome
	var err error
	if by == "" || len(by) > maxName {
		err = fmt.Errorf("type your name, of at most %d characters: others see who did it", maxName)
	} else {
		if by == typed {
			http.SetCookie(w, &http.Cookie{Name: nameCookie, Value: url.QueryEscape(by), Path: "/", MaxAge: int(nameTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode})
		}
		ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
		defer cancel()
		out, err = do(ctx, r, by)
	}
	if err == nil {
		u, _ := url.Parse(page) // local has parsed it
		q := u.Query()
		q.Set("done", out.done)
		if !out.end.IsZero() {
			q.Set("end", out.end.UTC().Format(time.RFC3339))
		}
		u.RawQuery = q.Encode()
		http.Redirect(w, r, u.String(), http.StatusSeeOther)
		return
	}
	status := http.StatusBadRequest
	if errors.Is(err, ErrUnavailable) {
		status = http.StatusServiceUnavailable
	}
	r = r.Clone(r.Context())
	r.URL = &url.URL{Path: back}
	refuse(w, r, status, err.Error())
}

// field returns what a person has typed into a field of a form.
func field(r *http.Request, name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// act returns a handler of a form that changes something.
func (s alertsPage) act(do func(ctx context.Context, r *http.Request, by string) (outcome, error)) http.HandlerFunc {
	refuse := func(w http.ResponseWriter, r *http.Request, status int, reason string) {
		p := s.pageSince(r, "Alerts", alertsPath, alertRange)
		p.Problem, p.Still = "Not done: "+reason+".", true
		for _, name := range []string{"matchers", "comment", "for"} {
			p.typed[name] = r.PostFormValue(name)
		}
		s.serveAlerts(w, r, status, p)
	}
	if s.controls == nil {
		do = func(context.Context, *http.Request, string) (outcome, error) { return outcome{}, errNoControls }
	}
	return func(w http.ResponseWriter, r *http.Request) { s.site.act(w, r, alertsPath, do, refuse) }
}

func (s alertsPage) acknowledge(ctx context.Context, r *http.Request, by string) (outcome, error) {
	return outcome{done: "acknowledged"}, s.controls.Acknowledge(ctx, r.PathValue("id"), by, false)
}

func (s alertsPage) unacknowledge(ctx context.Context, r *http.Request, by string) (outcome, error) {
	return outcome{done: "unacknowledged"}, s.controls.Acknowledge(ctx, r.PathValue("id"), by, true)
}

func (s alertsPage) silenceAlert(ctx context.Context, r *http.Request, by string) (outcome, error) {
	end, err := s.silenceEnd(r, s.controls)
	if err != nil {
		return outcome{}, err
	}
	comment := field(r, "comment")
	if comment == "" {
		comment = "from the alerts page"
	}
	return outcome{"silenced", end}, s.controls.SilenceAlert(ctx, r.PathValue("id"), end, comment, by)
}

func (s alertsPage) addSilence(ctx context.Context, r *http.Request, by string) (outcome, error) {
	end, err := s.silenceEnd(r, s.controls)
	if err != nil {
		return outcome{}, err
	}
	comment := field(r, "comment")
	if comment == "" {
		return outcome{}, errors.New("type a comment: others want to know why")
	}
	matchers := strings.Fields(r.PostFormValue("matchers"))
	if strings.Contains(r.PostFormValue("matchers"), "\n") { // a value with spaces needs its own line
		matchers = matchers[:0]
		for line := range strings.Lines(r.PostFormValue("matchers")) {
			if line = strings.TrimSpace(line); line != "" {
				matchers = append(matchers, line)
			}
		}
	}
	if len(matchers) == 0 {
		return outcome{}, errors.New("type a matcher, such as service=checkout")
	}
	return outcome{"added", end}, s.controls.AddSilence(ctx, matchers, end, comment, by)
}

func (s alertsPage) expireSilence(ctx context.Context, r *http.Request, by string) (outcome, error) {
	return outcome{done: "expired"}, s.controls.Expire(ctx, r.PathValue("id"), by)
}

// silencesWork returns an error if a silence made here has no effect: nobody must believe that an alert is silenced that still wakes
// others.
func silencesWork(c Controls) error {
	if text, only := c.Elsewhere(); only {
		return errors.New(strings.TrimSuffix(text, "."))
	}
	return nil
}

// silenceEnd returns the end of a silence that begins now. It is an error if a silence made here has no effect.
func (s *site) silenceEnd(r *http.Request, c Controls) (time.Time, error) {
	if c == nil {
		return time.Time{}, errNoControls
	}
	if err := silencesWork(c); err != nil {
		return time.Time{}, err
	}
	choice := field(r, "for")
	v, _ := newView(r, s.now()) // only its zone is used
	now := v.Now
	if choice == untilTomorrow {
		y, m, d := now.In(v.Zone).Date()
		return time.Date(y, m, d+1, 9, 0, 0, 0, v.Zone), nil
	}
	d, err := time.ParseDuration(choice)
	if err != nil || d < time.Minute || d > maxSilence {
		return time.Time{}, fmt.Errorf("%q is not a length of a silence, such as 90m or 12h, at most %d days", short(40, choice), int(maxSilence.Hours()/24))
	}
	return now.Add(d), nil
}

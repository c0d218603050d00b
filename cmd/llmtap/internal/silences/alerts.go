package silences

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertmanager"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
)

// An Alert is a firing alert in a response.
type Alert struct {
	alertmanager.Alert
	Fingerprint string        `json:"fingerprint"`
	UpdatedAt   time.Time     `json:"updatedAt"`
	Receivers   []receiver    `json:"receivers"`
	Status      alertingState `json:"status"`
}

type receiver struct {
	Name string `json:"name"`
}

// self is the only receiver: the channels of a group are not part of the API.
var self = receiver{"llmtap"}

type alertingState struct {
	State       string   `json:"state"` // active or suppressed
	SilencedBy  []string `json:"silencedBy"`
	InhibitedBy []string `json:"inhibitedBy"`
}

// firing returns the firing alerts of g that match the parameters of r.
func (h *Handler) firing(g *alerts.Group, r *http.Request) ([]Alert, error) {
	filter, err := filters(r)
	if err != nil {
		return nil, err
	}
	omit := func(parameter string) bool { return r.URL.Query().Get(parameter) == "false" }
	var out []Alert
	for i := range g.Alerts {
		a := &g.Alerts[i]
		if a.State != alerts.Firing || !access.ScopeOf(r.Context()).Sees(a.Labels) || !filter.Match(a.Name, a.Matchable()) ||
			a.Silence != nil && omit("silenced") || a.Inhibitor != nil && omit("inhibited") || !a.Muted() && omit("active") {
			continue
		}
		x := Alert{
			Alert: alertmanager.Alerts(alerts.Group{Alerts: []alerts.Alert{*a}}, h.opts.Access)[0], UpdatedAt: a.UpdatedAt.UTC(), Receivers: []receiver{self},
			Status: alertingState{State: "active", SilencedBy: []string{}, InhibitedBy: []string{}},
		}
		x.Fingerprint = x.Alert.Fingerprint()
		x.EndsAt = a.UpdatedAt.UTC().Add(5 * time.Minute) // unless it is evaluated again
		if a.Silence != nil {
			x.Status.SilencedBy = append(x.Status.SilencedBy, a.Silence.ID)
		}
		if a.Inhibitor != nil {
			x.Status.InhibitedBy = append(x.Status.InhibitedBy, a.Inhibitor.ID)
		}
		if a.Muted() {
			x.Status.State = "suppressed"
		}
		out = append(out, x)
	}
	return out, nil
}

// alerts returns the firing alerts that match the parameters.
func (h *Handler) alerts(src Source, w http.ResponseWriter, r *http.Request) error {
	out := []Alert{}
	for _, g := range src.Firing() {
		list, err := h.firing(&g, r)
		if err != nil {
			return err
		}
		out = append(out, list...)
	}
	remote.WriteJSON(w, http.StatusOK, out)
	return nil
}

// A Group is a group of firing alerts in a response.
type Group struct {
	Labels   map[string]string `json:"labels"` // by which the alerts are grouped
	Receiver receiver          `json:"receiver"`
	Alerts   []Alert           `json:"alerts"`
}

// groups returns the groups of the alerts that match the parameters.
func (h *Handler) groups(src Source, w http.ResponseWriter, r *http.Request) error {
	out := []Group{}
	for _, g := range src.Firing() {
		list, err := h.firing(&g, r)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		x := Group{Labels: map[string]string{}, Receiver: self, Alerts: list}
		for _, name := range append([]string{model.AlertNameLabel}, h.opts.GroupBy...) {
			if v := list[0].Labels[name]; v != "" { // all alerts of a group have the same value
				x.Labels[name] = v
			}
		}
		out = append(out, x)
	}
	remote.WriteJSON(w, http.StatusOK, out)
	return nil
}

func (h *Handler) receivers(_ Source, w http.ResponseWriter, _ *http.Request) error {
	remote.WriteJSON(w, http.StatusOK, []receiver{self})
	return nil
}

// A serverStatus is what clients show about the server. All fields are required by Alertmanager's schema.
type serverStatus struct {
	Cluster     clusterStatus     `json:"cluster"`
	Config      originalConfig    `json:"config"`
	Uptime      time.Time         `json:"uptime"` // start of the process
	VersionInfo map[string]string `json:"versionInfo"`
}

type clusterStatus struct {
	Name   string   `json:"name"`
	Peers  []string `json:"peers"`
	Status string   `json:"status"` // disabled: clients ask one process for everything
}

type originalConfig struct {
	Original string `json:"original"`
}

// status returns the version. The configuration is the routing tree that clients see, not that of llmtap, which has secrets.
func (h *Handler) status(_ Source, w http.ResponseWriter, _ *http.Request) error {
	by := slices.Concat([]string{model.AlertNameLabel}, h.opts.GroupBy)
	remote.WriteJSON(w, http.StatusOK, serverStatus{
		Cluster: clusterStatus{Peers: []string{}, Status: "disabled"},
		Config:  originalConfig{"route:\n  receiver: " + self.Name + "\n  group_by: [" + strings.Join(by, ", ") + "]\nreceivers:\n  - name: " + self.Name + "\n"},
		Uptime:  h.opts.Started.UTC(),
		VersionInfo: map[string]string{
			"version": h.opts.Version, "goVersion": runtime.Version(), "branch": "", "buildDate": "", "buildUser": "", "revision": "",
		},
	})
	return nil
}

package problems

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/ingest/nearest"
)

// A Client is the API of a collector.
type Client struct{ *remote.Client }

var _ API = Client{}

// List implements API.
func (c Client) List(ctx context.Context, f Filter) (list []Problem, err error) {
	err = c.Call(ctx, http.MethodGet, Path, f.values(), nil, &list)
	return list, err
}

// Get implements API.
func (c Client) Get(ctx context.Context, id string) (d Details, err error) {
	err = c.Call(ctx, http.MethodGet, Path+"/"+url.PathEscape(id), nil, nil, &d)
	return d, err
}

// Decide implements API. Of by, the collector learns the ID.
func (c Client) Decide(ctx context.Context, id string, d alerts.ProblemDecision, by alerts.Actor) (p Problem, err error) {
	err = c.Call(ctx, http.MethodPost, Path+"/"+url.PathEscape(id), nil, d, &p, remote.HeaderActor, by.ID)
	return p, err
}

const (
	// shortID is the length of ids in a list, unless two begin with the same.
	shortID = 8
	// minIDPrefix is the minimum length of an abbreviated id.
	minIDPrefix = 4
)

// Find returns the id of the problem whose id begins with prefix.
func Find(ctx context.Context, api API, prefix string) (string, error) {
	prefix = strings.ToLower(prefix)
	list, err := api.List(ctx, Filter{})
	if err != nil {
		return "", err
	}
	var found, near []string
	for _, p := range list {
		if strings.HasPrefix(p.ID, prefix) {
			found = append(found, p.ID)
		}
		near = append(near, p.ID[:min(len(p.ID), max(len(prefix), minIDPrefix))])
	}
	switch {
	case len(found) > 0 && len(prefix) < minIDPrefix:
		return "", command.BadInputf("%q is too short for an id; give at least %d characters of it", prefix, minIDPrefix)
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", command.BadInputf("%s is the start of the ids %s; give more of it", prefix, strings.Join(found, " and "))
	}
	return "", unknown(prefix, near)
}

// unknown returns the error for an id that none of ids is.
func unknown(id string, ids []string) error {
	if n := nearest.Name(id, ids); n != "" {
		return fmt.Errorf("there is no problem %.50s; did you mean %s? llmtap problems list --all lists them", id, n)
	}
	return fmt.Errorf("there is no problem %.50s; llmtap problems list --all lists them", id)
}

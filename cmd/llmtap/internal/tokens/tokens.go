/*
Package tokens makes, lists and revokes tokens of machines over HTTP and on the command line.

	llmtap token create ─> Client ─> guard of the listener ─> Handler ─> access.Machines: NATS, which all processes watch
*/
package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Path is the path of the list of tokens. Single tokens are below it.
const Path = "/api/v1/tokens"

// Created is a new token. The secret is in no other answer.
type Created struct {
	access.Token

	Secret string `json:"token"`
}

// NewHandler returns the handler of Path and the paths below it. It does not control access. Tokens may be limited to teams.
func NewHandler(m *access.Machines, teams access.Teams) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(w, r)
			if err != nil {
				remote.WriteError(w, err)
				return
			}
			remote.WriteJSON(w, http.StatusOK, answer)
		})
	}
	handle("GET "+Path, func(http.ResponseWriter, *http.Request) (any, error) { return m.List(), nil })
	handle("POST "+Path, func(w http.ResponseWriter, r *http.Request) (any, error) {
		var t access.Token
		if err := remote.ReadJSON(w, r, "a token", &t); err != nil {
			return nil, err
		}
		t.By = remote.Actor(r).ID
		access.Note(r.Context(), access.ChangeToken, t.Name, "create, role "+t.Role.String()+limits(t.Teams)+", expires "+t.Expires.UTC().Format(time.RFC3339))
		if err := cmp.Or(t.Validate(time.Now()), teams.Known(t.Teams)); err != nil {
			return nil, &remote.RequestError{Status: http.StatusBadRequest, Err: err}
		}
		secret, err := m.Create(r.Context(), &t)
		switch {
		case errors.Is(err, access.ErrTokenSet):
			return nil, &remote.RequestError{Status: http.StatusConflict, Err: err}
		case err != nil:
			return nil, &remote.RequestError{Status: http.StatusServiceUnavailable, Err: err}
		}
		return Created{t, secret}, nil
	})
	handle("DELETE "+Path+"/{name}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		_ = remote.Actor(r) // for the audit
		access.Note(r.Context(), access.ChangeToken, r.PathValue("name"), "revoke")
		err := m.Revoke(r.Context(), r.PathValue("name"))
		switch {
		case errors.Is(err, access.ErrNoToken):
			return nil, &remote.RequestError{Status: http.StatusNotFound, Err: err}
		case err != nil:
			return nil, &remote.RequestError{Status: http.StatusServiceUnavailable, Err: err}
		}
		return struct{}{}, nil
	})
	return mux
}

// limits returns the teams of a token, in words.
func limits(teams []string) string {
	if len(teams) == 0 {
		return ""
	}
	return " of " + strings.Join(teams, ", ")
}

// Create makes a token and writes it.
func Create(ctx context.Context, c *remote.Client, t access.Token, actor string, w io.Writer, format string, style *terminal.Style) error {
	var out Created
	if err := c.Call(ctx, http.MethodPost, Path, nil, t, &out, remote.HeaderActor, actor); err != nil {
		return err
	}
	if format == command.JSON {
		return command.WriteJSON(w, out)
	}
	fmt.Fprintln(w, out.Secret)
	fmt.Fprintln(w, style.Wrap("", fmt.Sprintf("The token %s has the role %s%s until %s. It is not shown again.", out.Name, out.Role, limits(out.Teams), style.Time(out.Expires)), ""))
	return nil
}

// List writes the tokens.
func List(ctx context.Context, c *remote.Client, w io.Writer, format string, style *terminal.Style) error {
	var list []access.Token
	if err := c.Call(ctx, http.MethodGet, Path, nil, nil, &list); err != nil {
		return err
	}
	if format == command.JSON {
		return command.WriteJSON(w, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no tokens")
	}
	now := time.Now()
	for _, t := range list {
		state := "expires in " + quantity.Span(t.Expires.Sub(now))
		if !now.Before(t.Expires) {
			state = style.Red("expired")
		}
		by := ""
		if t.By != "" {
			by = " by " + terminal.Line(t.By)
		}
		fmt.Fprintf(w, "%s  %s%s  %s\n", t.Name, t.Role, limits(t.Teams), state)
		fmt.Fprintln(w, style.Wrap("  ", "created "+style.Time(t.Created)+by, "  "))
	}
	return nil
}

// Revoke revokes the token with a name.
func Revoke(ctx context.Context, c *remote.Client, name, actor string, w io.Writer) error {
	if err := c.Call(ctx, http.MethodDelete, Path+"/"+url.PathEscape(name), nil, nil, nil, remote.HeaderActor, actor); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "token %s is revoked\n", name)
	return err
}

package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// callTimeout bounds every call of Chromium.
const callTimeout = 5 * time.Minute

// A Browser is a running Chromium.
type Browser struct {
	out io.Writer // commands

	mu      sync.Mutex // guards the rest, and writes to out
	last    int        // id of the last call
	answers map[int]chan answer
	pages   map[string]*Page // by session
	ended   error
}

// An answer is the result of a call.
type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// OtherSite is a domain whose hosts are 127.0.0.1 for Chromium, for pages of another site than those of llmtap.
const OtherSite = "other.example"

// Start runs Chromium until the test ends. Chromium resolves no other host names, so that nothing but loopback is reachable.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := find(t)
	// A process of Chromium may still write while the others have ended, so t.TempDir could not be removed.
	dir, err := os.MkdirTemp("", "llmtap-chromium-") //nolint:usetesting // see above
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context())) // the cleanup below ends Chromium
	cmd := exec.CommandContext(ctx, path, "--headless", "--remote-debugging-pipe", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--no-sandbox", // root, as in a container, has none; the pages are llmtap's own
		"--host-resolver-rules=MAP *."+OtherSite+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--log-level=3", // a container has no D-Bus, which is many errors
		"--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir) // crash reports and caches go there
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	commandsIn, commandsOut, err := os.Pipe()
	must.Do(t, err)
	eventsIn, eventsOut, err := os.Pipe()
	must.Do(t, err)
	cmd.ExtraFiles = []*os.File{commandsIn, eventsOut} // file descriptors 3 and 4
	must.Do(t, cmd.Start())
	_, _ = commandsIn.Close(), eventsOut.Close() // Chromium has its own
	b := &Browser{out: commandsOut, answers: map[int]chan answer{}, pages: map[string]*Page{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(eventsIn)
	}()
	t.Cleanup(func() {
		_ = b.call(ctx, "", "Browser.close", nil, nil) // kill follows
		timer := time.AfterFunc(5*time.Second, kill)
		_ = cmd.Wait() // its error is of no interest
		timer.Stop()
		kill()
		_, _ = commandsOut.Close(), eventsIn.Close()
		<-done
		if t.Failed() {
			t.Logf("Chromium:\n%s", stderr.String())
		}
	})
	var version struct{ Product string }
	must.Do(t, b.call(t.Context(), "", "Browser.getVersion", nil, &version), "start", path, stderr.String())
	t.Logf("%s: %s", path, version.Product)
	return b
}

// read dispatches answers and events until Chromium ends.
func (b *Browser) read(r io.Reader) {
	messages := bufio.NewReader(r)
	for {
		raw, err := messages.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.ended = fmt.Errorf("read from Chromium: %w", err)
			for id, ch := range b.answers {
				close(ch)
				delete(b.answers, id)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
			answer
		}
		if err := json.Unmarshal(raw[:len(raw)-1], &m); err != nil {
			continue // the call that waits for it fails
		}
		b.mu.Lock()
		ch, page := b.answers[m.ID], b.pages[m.SessionID]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && ch != nil:
			ch <- m.answer
		case page != nil:
			page.event(m.Method, m.Params)
		}
	}
}

// call calls a method of the DevTools protocol and decodes its result into result, unless that is nil.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if params == nil {
		params = struct{}{}
	}
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.last++
	id, ch := b.last, make(chan answer, 1)
	b.answers[id] = ch
	request := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		request["sessionId"] = session
	}
	raw, err := json.Marshal(request)
	if err == nil {
		_, err = b.out.Write(append(raw, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case a, ok := <-ch:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	}
}

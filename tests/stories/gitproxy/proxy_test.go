package gitproxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/stories/gitproxy"
)

const content = "what a Git host says"

// open starts a proxy for a host that always responds with the same text.
func open(t *testing.T, say string) *gitproxy.Proxy {
	t.Helper()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, say) }))
	t.Cleanup(host.Close)
	p, err := gitproxy.New(host.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// get sends a request to a proxy, with a short timeout.
func get(t *testing.T, p *gitproxy.Proxy) (code int, body string, err error) {
	t.Helper()
	client := http.Client{Timeout: 300 * time.Millisecond}
	res, err := client.Get(p.URL())
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	read, err := io.ReadAll(res.Body)
	return res.StatusCode, string(read), err
}

func TestAnswer(t *testing.T) {
	long := strings.Repeat(content, 1000)
	for name, test := range map[string]struct {
		answer   int
		say      string
		code     int
		fails    bool
		timesOut bool
	}{
		"up":                    {gitproxy.Up, long, http.StatusOK, false, false},
		"away":                  {gitproxy.Down, content, 0, true, false},
		"hanging":               {gitproxy.Hang, content, 0, true, true},
		"slow, and little":      {gitproxy.Slow, content, http.StatusOK, false, false},
		"slow, and much":        {gitproxy.Slow, long, http.StatusOK, true, true},
		"one that has too much": {http.StatusTooManyRequests, content, http.StatusTooManyRequests, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, test.say)
			p.Answer(test.answer)
			code, body, err := get(t, p)
			var timeout *url.Error
			timedOut := errors.As(err, &timeout) && timeout.Timeout() || err != nil && strings.Contains(err.Error(), "Client.Timeout")
			if code != test.code || (err != nil) != test.fails || timedOut != test.timesOut {
				t.Errorf("got %d, %v, want %d, failed %v, by time %v", code, err, test.code, test.fails, test.timesOut)
			}
			if code == http.StatusOK && err == nil && body != test.say {
				t.Errorf("%d bytes have come over, not as the host said them", len(body))
			}
			p.Answer(gitproxy.Up)
			if code, body, err := get(t, p); code != http.StatusOK || body != test.say || err != nil {
				t.Errorf("after that: %d, %d bytes, %v", code, len(body), err)
			}
		})
	}
}

// A hanging host that is fixed answers the waiting requests.
func TestHangEnds(t *testing.T) {
	p := open(t, content)
	p.Answer(gitproxy.Hang)
	time.AfterFunc(50*time.Millisecond, func() { p.Answer(gitproxy.Up) })
	if _, body, err := get(t, p); body != content || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
}

// Only plumbline's statuses for a whole commit that the host has accepted are recorded.
func TestPosted(t *testing.T) {
	for context, want := range map[string][]string{
		"plumbline/east/nodes":         {"success"},
		"plumbline/east/nodes/applied": nil,
		"flux/nodes":                   nil,
	} {
		p := open(t, fmt.Sprintf(`{"status": "success", "context": %q}`, context))
		post(t, p, "/api/v1/repos/a/b/statuses/abc")
		if diff := cmp.Diff(want, p.Posted("abc")); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", context, diff)
		}
	}
	p := open(t, `{"status": "success", "context": "plumbline/east/nodes"}`)
	post(t, p, "/a/b.git/git-upload-pack")
	if posted := p.Posted("git-upload-pack"); posted != nil {
		t.Errorf("a fetch is noted as %v", posted)
	}
}

func post(t *testing.T, p *gitproxy.Proxy, path string) {
	t.Helper()
	res, err := http.Post(p.URL()+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", path, res.Status, err)
	}
}

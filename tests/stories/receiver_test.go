package stories_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// receiver accepts POST requests, and keeps their bodies by path.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string][]string
}

func newReceiver() *receiver {
	r := &receiver{got: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || request.Method != http.MethodPost {
			http.Error(w, "want a POST", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[request.URL.Path] = append(r.got[request.URL.Path], string(body))
	}))
	return r
}

// posted returns all that was posted to a path.
func (r *receiver) posted(path string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got[path]...)
}

// receiverCommand is `receiver` and `receiver [-t D] PATH N ~ REGEX`.
func (s *story) receiverCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		s.receiver = newReceiver()
		ts.Defer(s.receiver.Close)
		ts.Setenv("RECEIVER_URL", s.receiver.URL)
		return nil
	}
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(args) != 2 || pattern == nil || s.receiver == nil {
		return errors.New("usage: receiver, receiver [-t D] PATH N ~ REGEX")
	}
	return s.poll(timeout, func(context.Context) error {
		found, posted := 0, s.receiver.posted(args[0])
		for _, body := range posted {
			if pattern.MatchString(body) {
				found++
			}
		}
		if fmt.Sprint(found) != args[1] {
			return fmt.Errorf("%d match of\n%s", found, strings.Join(posted, "\n"))
		}
		return nil
	})
}

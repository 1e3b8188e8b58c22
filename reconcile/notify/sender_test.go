package notify_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

// answers responds with the codes, one after another, and then with 200.
func answers(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= len(codes) {
			w.WriteHeader(codes[n-1])
		}
	}
}

// TestRetries covers failures that may be temporary, and others, which are not retried.
func TestRetries(t *testing.T) {
	cases := map[string]struct {
		codes    []int
		requests int
		failure  string
	}{
		"at once":             {requests: 1},
		"busy, then well":     {codes: []int{503, 500}, requests: 3},
		"broken for long":     {codes: []int{500, 500, 500, 500, 500, 500}, requests: 6, failure: "receiver chat was not notified of Held: it answers 500 Internal Server Error"},
		"a revoked address":   {codes: []int{404}, requests: 1, failure: "it answers 404 Not Found"},
		"another address now": {codes: []int{302}, requests: 1, failure: "it redirects to another address"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, answers(c.codes...))
			w.tell(v1alpha1.NotifyGeneric, heldNotice())
			w.until("the requests", func() bool { return len(w.requests()) == c.requests })
			if c.failure != "" {
				if failed := w.failure(); !strings.Contains(failed, c.failure) {
					t.Errorf("failed with %q, want %q", failed, c.failure)
				}
			}
			// The next request shows that no attempt remains.
			w.tell(v1alpha1.NotifyGeneric, endedNotice())
			w.until("the next", func() bool { return len(w.requests()) == c.requests+1 })
			if last := w.requests()[c.requests]; !strings.Contains(last.body, notify.Recovered) {
				t.Errorf("an attempt too many: %s", last.body)
			}
		})
	}
}

// TestRateLimit waits as long as the receiver requests, but at most ten minutes.
func TestRateLimit(t *testing.T) {
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "86400": 10 * time.Minute, "0": time.Second, "soon": time.Second} {
		w := newWorld(t, nil, func(n int, rw http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				rw.Header().Set("Retry-After", after)
				rw.WriteHeader(http.StatusTooManyRequests)
			}
		})
		w.tell(v1alpha1.NotifySlack, heldNotice())
		w.until("two requests", func() bool { return len(w.requests()) == 2 })
		if diff := cmp.Diff([]time.Duration{want}, w.pauses()); diff != "" {
			t.Errorf("Retry-After %s (-want +got):\n%s", after, diff)
		}
	}
}

// TestSecrets are only sent to hosts that they name, and are in no message.
func TestSecrets(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Secret)
		want   string
	}{
		"for another host": {func(s *corev1.Secret) { s.Annotations[v1alpha1.HostsAnnotation] = "hooks.slack.com" }, "does not list that host"},
		"for no host":      {func(s *corev1.Secret) { s.Annotations = nil }, "does not list the hosts that may receive it"},
		"for another NodeSync": {
			func(s *corev1.Secret) { s.Annotations[v1alpha1.NodeSyncsAnnotation] = "other" },
			"does not list NodeSync prod",
		},
		"over plain HTTP": {func(s *corev1.Secret) {
			s.Data["address"] = []byte("http://hooks.example.com/s3cr3tp4th")
			s.Annotations[v1alpha1.HostsAnnotation] = "hooks.example.com"
		}, "over plain HTTP"},
		"no address":      {func(s *corev1.Secret) { s.Data["address"] = []byte("s3cr3tp4th") }, "the key address of secret chat is no URL"},
		"no certificate":  {func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("x") }, "ca.crt of its Secret has no certificate"},
		"another name":    {func(s *corev1.Secret) { s.Name = "another" }, "read secret chat"},
		"repeated to all": {nil, "it answers 400 Bad Request: no "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change, func(_ int, rw http.ResponseWriter, r *http.Request) {
				rw.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(rw, "no %s with %s", r.URL.Path, key)
			})
			w.tell(v1alpha1.NotifyGeneric, heldNotice())
			failed := w.failure()
			if !strings.Contains(failed, c.want) {
				t.Errorf("failed with %q, want %q", failed, c.want)
			}
			if strings.Contains(failed, "s3cr3tp4th") || strings.Contains(failed, key) {
				t.Errorf("it repeats a secret: %s", failed)
			}
			if sent := len(w.requests()) > 0; sent != (c.change == nil) {
				t.Errorf("%d requests", len(w.requests()))
			}
		})
	}
}

// TestNobodyWaits for a receiver that hangs: Send returns immediately, others are notified, and the queue is limited.
func TestNobodyWaits(t *testing.T) {
	hanging := make(chan struct{})
	defer close(hanging)
	w := newWorld(t, nil, func(_ int, _ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "s3cr3tp4th") {
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
		}
	})
	began := time.Now()
	for range 40 {
		w.tell(v1alpha1.NotifyGeneric, heldNotice())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if failed := w.failure(); !strings.Contains(failed, "32 others wait") {
		t.Errorf("failed with %q", failed)
	}
}

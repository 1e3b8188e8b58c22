package notify_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

var prod = types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}

const key = "k3y-0f-th3-h00k"

func condition(kind, words string) metav1.Condition {
	parts := strings.SplitN(words, ":", 3)
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(parts[0]), Reason: parts[1], Message: parts[2]}
}

// world is a receiver and a Sender.
type world struct {
	*notify.Sender

	t      *testing.T
	host   *httptest.Server
	secret *corev1.Secret

	mu     sync.Mutex
	got    []request
	paused []time.Duration
}

type request struct {
	header http.Header
	path   string
	body   string
}

// newWorld responds to the Nth request with answer.
func newWorld(t *testing.T, change func(*corev1.Secret), answer func(n int, w http.ResponseWriter, r *http.Request)) *world {
	t.Helper()
	w := &world{t: t}
	w.host = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.got = append(w.got, request{r.Header, r.URL.Path, string(body)})
		n := len(w.got)
		w.mu.Unlock()
		if answer != nil {
			answer(n, rw, r)
		}
	}))
	t.Cleanup(w.host.Close)
	w.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "chat", Annotations: map[string]string{v1alpha1.HostsAnnotation: "127.0.0.1"}},
		Data:       map[string][]byte{"address": []byte(w.host.URL + "/services/T0/B0/s3cr3tp4th"), "token": []byte(key)},
	}
	if change != nil {
		change(w.secret)
	}
	w.Sender = &notify.Sender{Secrets: fake.NewClientBuilder().WithObjects(w.secret).Build(), Pause: func(_ context.Context, d time.Duration) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paused = append(w.paused, d)
		return nil
	}}
	return w
}

func (w *world) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]request(nil), w.got...)
}

func (w *world) pauses() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration(nil), w.paused...)
}

// tell sends Notices to a receiver.
func (w *world) tell(kind v1alpha1.NotifyType, notices ...notify.Notice) {
	to := v1alpha1.Notify{Name: "chat", Type: kind, SecretRef: v1alpha1.LocalReference{Name: "chat"}}
	w.Send(w.t.Context(), []v1alpha1.Notify{to}, notices)
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for !is() {
		select {
		case <-deadline:
			w.t.Fatalf("not so in time: %s; %d requests", what, len(w.requests()))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// failure waits for the failure of a Notice.
func (w *world) failure() string {
	w.t.Helper()
	var failed []string
	w.until("a failure", func() bool {
		failed = append(failed, w.Failed(prod)...)
		return len(failed) > 0
	})
	return strings.Join(failed, "\n")
}

func heldNotice() notify.Notice {
	at := time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)
	return notify.Notice{
		NodeSync: prod, Cluster: "prod-eu", Subject: "Ready", Reason: "Held", Severity: v1alpha1.NotifyError,
		Message: "removal of NodePool/<batch> & 1 more is held", Revision: "main@sha1:9f2c1e4b", At: at, Since: at,
	}
}

func endedNotice() notify.Notice {
	n := heldNotice()
	n.Reason, n.Of, n.Severity, n.Message, n.At = notify.Recovered, "Held", v1alpha1.NotifyInfo, "Held has ended: applied", n.At.Add(time.Hour)
	return n
}

package apply_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// busyServer is an API server that is too busy for its first requests.
type busyServer struct {
	// busy is how many; after sends a Retry-After of one second each time.
	busy  int
	after bool

	mu     sync.Mutex
	bodies []string
	at     []time.Time
}

func (s *busyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body differs
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies, s.at = append(s.bodies, r.Method+" "+string(body)), append(s.at, time.Now())
	w.Header().Set("Content-Type", "application/json")
	if len(s.at) <= s.busy {
		if s.after {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(apierrors.NewTooManyRequests("later", 1).ErrStatus)
		return
	}
	_, _ = w.Write(body)
}

// update applies a change of a pool to the server.
func (s *busyServer) update(t *testing.T) apply.Result {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	kinds := meta.NewDefaultRESTMapper(nil)
	for _, kind := range render.Kinds() {
		kinds.Add(kind.GVK, meta.RESTScopeRoot)
	}
	c, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: runtime.NewScheme(), Mapper: kinds})
	if err != nil {
		t.Fatal(err)
	}
	wanted := decode(t, pool)
	change := plan.Change{Ref: general, Action: plan.Update, Object: render.Object{Ref: general, Desired: wanted, Defaulted: wanted}, Live: wanted.DeepCopy()}
	return apply.Apply(t.Context(), c, []plan.Change{change}, apply.Options{Owner: plan.OwnerOf("plumbline-system", "prod"), Concurrency: 1, Arrivals: &apply.Arrivals{}})
}

// TestABusyAPIServerIsAskedAgainAsItAsks: the same request is sent again, not earlier than Retry-After.
func TestABusyAPIServerIsAskedAgainAsItAsks(t *testing.T) {
	s := &busyServer{busy: 2, after: true}
	if err := s.update(t).Err(); err != nil {
		t.Fatal(err)
	}
	if len(s.at) != 3 {
		t.Fatalf("asked %d times, want 3", len(s.at))
	}
	for i := 1; i < len(s.at); i++ {
		if waited := s.at[i].Sub(s.at[i-1]); waited < time.Second {
			t.Errorf("asked again after %s", waited)
		}
		if s.bodies[i] != s.bodies[0] {
			t.Errorf("asked again with %q, first with %q", s.bodies[i], s.bodies[0])
		}
	}
}

// TestABusyAPIServerThatNamesNoTime: the client does not retry; the next reconcile does.
func TestABusyAPIServerThatNamesNoTime(t *testing.T) {
	s := &busyServer{busy: 1}
	if err := s.update(t).Err(); !apierrors.IsTooManyRequests(err) || len(s.at) != 1 {
		t.Errorf("asked %d times: %v", len(s.at), err)
	}
}

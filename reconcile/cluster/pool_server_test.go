package cluster_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// poolServer is an API server that has NodePools. It does not support streaming lists.
type poolServer struct {
	t *testing.T

	mu      sync.Mutex
	version int
	pools   map[string]*unstructured.Unstructured
	events  []poolEvent
	// news is closed by the next event.
	news chan struct{}
	// cut closes the open watches.
	cut chan struct{}
	// answers are the responses to the next watches, before any others.
	answers []func(http.ResponseWriter)
	// asked are the requests: "list" or "watch VERSION".
	asked []string
	at    []time.Time
}

// poolEvent is an event of a watch.
type poolEvent struct {
	version int
	kind    string
	pool    *unstructured.Unstructured
}

// set creates or changes a pool. The caller holds the lock, as for remove and tell.
func (s *poolServer) set(name string, weight int64) {
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"weight": weight}}}
	kind, _ := render.KindOf(render.NodePool)
	pool.SetGroupVersionKind(kind.GVK)
	pool.SetName(name)
	event := "MODIFIED"
	if s.pools[name] == nil {
		event = "ADDED"
	}
	s.tell(event, pool)
	s.pools[name] = pool
}

func (s *poolServer) remove(name string) {
	pool := s.pools[name].DeepCopy()
	s.tell("DELETED", pool)
	delete(s.pools, name)
}

func (s *poolServer) tell(kind string, pool *unstructured.Unstructured) {
	s.version++
	pool.SetResourceVersion(strconv.Itoa(s.version))
	s.events = append(s.events, poolEvent{s.version, kind, pool.DeepCopy()})
	close(s.news)
	s.news = make(chan struct{})
}

// away closes all watches, makes changes that none of them reports, and gives the next watches these responses.
func (s *poolServer) away(meanwhile func(), answers ...func(http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.asked, s.at = answers, nil, nil
	close(s.cut)
	s.cut = make(chan struct{})
	meanwhile()
}

// requests returns those since the watches were closed, and their times.
func (s *poolServer) requests() ([]string, []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked), slices.Clone(s.at)
}

func (s *poolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case q.Get("sendInitialEvents") != "":
		refuse(&apierrors.NewInvalid(render.Kinds()[0].GVK.GroupKind(), "", nil).ErrStatus)(w)
	case q.Get("watch") == "":
		s.list(w)
	default:
		s.watch(w, r, q.Get("resourceVersion"))
	}
}

func (s *poolServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.at = append(s.asked, "list"), append(s.at, time.Now())
	items := []*unstructured.Unstructured{}
	for _, pool := range s.pools {
		items = append(items, pool)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "NodePoolList", "apiVersion": "karpenter.sh/v1", "items": items, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
	})
}

func (s *poolServer) watch(w http.ResponseWriter, r *http.Request, version string) {
	s.mu.Lock()
	s.asked, s.at = append(s.asked, "watch "+version), append(s.at, time.Now())
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		s.mu.Unlock()
		answer(w)
		return
	}
	cut := s.cut
	s.mu.Unlock()
	told, err := strconv.Atoi(version)
	if err != nil {
		s.t.Errorf("a watch from version %q", version)
	}
	for r.Context().Err() == nil {
		events, news, over := s.since(told, cut)
		if over {
			return
		}
		for _, e := range events {
			told = e.version
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.pool})
		}
		w.(http.Flusher).Flush()
		select {
		case <-cut:
		case <-news:
		case <-r.Context().Done():
		}
	}
}

// since returns the events after a version, the channel that the next one closes, and whether the watch was closed.
func (s *poolServer) since(version int, cut chan struct{}) (events []poolEvent, news chan struct{}, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events = slices.DeleteFunc(slices.Clone(s.events), func(e poolEvent) bool { return e.version <= version })
	return events, s.news, cut != s.cut
}

// refuse responds with a Status.
func refuse(status *metav1.Status) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if status.Reason == metav1.StatusReasonTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	}
}

// toldInTheStream is a watch that starts, and then ends with a Status.
func toldInTheStream(status *metav1.Status) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status})
	}
}

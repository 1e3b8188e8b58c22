package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// fluxGroupVersion is the version that is read: Flux 2.6 serves it for OCIRepository, 2.7 for ExternalArtifact.
var fluxGroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// FluxSources reads and watches the Flux sources of one cluster.
type FluxSources struct {
	// Reader queries the API server; Watcher watches it.
	Reader  client.Reader
	Watcher dynamic.Interface
	// Namespaces are those whose sources may be followed from other namespaces.
	Namespaces []string
	// Wake checks the sources of NodeSyncs now. If nil, no source is watched.
	Wake func(ctx context.Context, syncs []v1alpha1.NodeSync) error
	// Now returns the current time; if nil, the system clock is used.
	Now func() time.Time

	mu      sync.Mutex
	watches map[v1alpha1.SourceRef]*watchedSource
}

// Artifact returns the newest artifact of a source for a NodeSync, which from then on is enqueued when the artifact
// changes. The error is an *ArtifactError, a *FluxRefError, or the API server's.
func (s *FluxSources) Artifact(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) (*Artifact, error) {
	if ref.Namespace != of.Namespace && !slices.Contains(s.Namespaces, ref.Namespace) {
		return nil, &FluxRefError{
			Ref: ref.String(), Problem: fmt.Sprintf("is in namespace %s, and the daemon's --source-namespaces does not list that", ref.Namespace),
		}
	}
	if s.Wake != nil {
		s.follow(ctx, of, ref)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(fluxGroupVersion.WithKind(ref.Kind))
	asked := s.now()
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	switch {
	case meta.IsNoMatchError(err):
		return nil, &FluxRefError{Ref: ref.String(), Problem: fmt.Sprintf("is of a kind that the API server does not serve as %s: install Flux's source-controller, 2.7 or later", fluxGroupVersion)}
	case apierrors.IsNotFound(err):
		return nil, &FluxRefError{Ref: ref.String(), Problem: "does not exist: create it, or change spec.source.sourceRef"}
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	found, err := artifactOf(ref, object)
	if err != nil {
		return nil, err
	}
	found.Asked = asked
	return found, nil
}

func (s *FluxSources) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Artifact is what Flux has fetched from a source.
type Artifact struct {
	// Of is the source: kind/namespace/name.
	Of string
	// URL is where source-controller serves it; Digest is that of its bytes: algorithm:hex.
	URL, Digest string
	// Revision in Flux's form: main@sha1:<commit>, latest@sha256:<digest>.
	Revision string
	// Updated is when Flux created it.
	Updated time.Time
	// Before maps the commits of earlier artifacts to when Flux created each, if known.
	Before map[string]time.Time
	// Asked is when the API server was queried: later changes are not included.
	Asked time.Time
	// Unready is why Flux has not created a newer one; nil if the source is ready.
	Unready error
}

// fluxState is the part of a source that is read.
type fluxState struct {
	Status struct {
		Artifact   *fluxmeta.Artifact `json:"artifact,omitempty"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions,omitempty"`
	} `json:"status"`
}

// artifactOf returns the artifact in a source's status.
func artifactOf(ref v1alpha1.SourceRef, object *unstructured.Unstructured) (*Artifact, error) {
	var of fluxState
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of); err != nil {
		return nil, fmt.Errorf("read the status of %s: %w", ref, err)
	}
	var unready error
	for _, c := range of.Status.Conditions {
		if c.Type == fluxmeta.ReadyCondition && c.Status == "False" { // Unknown means that a fetch is in progress
			unready = &ArtifactError{Of: ref.String(), Problem: "is not Ready: " + c.Message}
		}
	}
	a := of.Status.Artifact
	switch {
	case a == nil && unready != nil:
		return nil, unready
	case a == nil:
		return nil, &ArtifactError{Of: ref.String(), Problem: "has no artifact yet"}
	case a.URL == "" || a.Digest == "" || a.Revision == "":
		return nil, &ArtifactError{Of: ref.String(), Problem: "has an artifact without a url, a digest or a revision"}
	}
	return &Artifact{
		Of: ref.String(), URL: a.URL, Digest: a.Digest, Revision: a.Revision, Updated: a.LastUpdateTime.Time, Unready: unready,
	}, nil
}

// GitOrFlux fetches from a Git host or uses what Flux has fetched, depending on the request. The history of an artifact
// is unknown, so a verdict on it is reported only on its own commit.
type GitOrFlux struct {
	*Git
	*FluxSources
	Artifacts *FluxStore
}

// Fetch calls Git.Fetch or FluxStore.Fetch.
func (e GitOrFlux) Fetch(ctx context.Context, req Request) (*render.Snapshot, time.Time, error) {
	if req.Artifact == nil {
		if err := e.leave(req.Key); err != nil {
			return nil, time.Time{}, err
		}
		return e.Git.Fetch(ctx, req)
	}
	if err := e.Git.Forget(req.Key); err != nil {
		return nil, time.Time{}, err
	}
	return e.Artifacts.Fetch(ctx, req.Key, *req.Artifact)
}

// leave drops the Flux state of a key that no longer follows a Flux source.
func (e GitOrFlux) leave(key string) error {
	namespace, name, _ := strings.Cut(key, "/")
	e.FluxSources.Forget(types.NamespacedName{Namespace: namespace, Name: name})
	return e.Artifacts.Forget(key)
}

// Since calls Git.Since; an artifact has no history.
func (e GitOrFlux) Since(ctx context.Context, key, applied string, read render.Read, limit int) (commits []string, known bool) {
	if e.Artifacts.Holds(key) {
		return nil, true
	}
	return e.Git.Since(ctx, key, applied, read, limit)
}

// FindSince calls Git.FindSince; an artifact has no history.
func (e GitOrFlux) FindSince(ctx context.Context, req Request, applied string, read render.Read, limit int) ([]string, error) {
	if req.Artifact != nil {
		return nil, nil
	}
	return e.Git.FindSince(ctx, req, applied, read, limit)
}

// Order calls Git.Order or FluxStore.Order.
func (e GitOrFlux) Order(key, commit string) Order {
	if e.Artifacts.Holds(key) {
		return e.Artifacts.Order(key, commit)
	}
	return e.Git.Order(key, commit)
}

// FindOrder calls Git.FindOrder, or Order for an artifact, whose history is not available elsewhere.
func (e GitOrFlux) FindOrder(ctx context.Context, req Request, commit string) (Order, error) {
	if req.Artifact != nil {
		order := e.Artifacts.Order(req.Key, commit)
		if order == OrderUnknown {
			return order, &HistoryError{Since: commit, Reason: "Flux keeps no artifact but the newest, and when it had made that one is not known"}
		}
		return order, nil
	}
	return e.Git.FindOrder(ctx, req, commit)
}

// Forget drops what is stored for a deleted NodeSync.
func (e GitOrFlux) Forget(key string) error { return errors.Join(e.leave(key), e.Git.Forget(key)) }

// watchedSource is a watched source with its followers.
type watchedSource struct {
	followers map[types.NamespacedName]bool
	end       context.CancelFunc
}

// fluxResources are the resource names of the kinds.
var fluxResources = map[string]string{
	"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets", "ExternalArtifact": "externalartifacts",
}

// follow makes one source, and no other, enqueue a NodeSync, even after the reconcile that requests it.
func (s *FluxSources) follow(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.watches {
		if other != ref {
			s.leave(of, other)
		}
	}
	if w := s.watches[ref]; w != nil {
		w.followers[of] = true
		return
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	if s.watches == nil {
		s.watches = map[v1alpha1.SourceRef]*watchedSource{}
	}
	s.watches[ref] = &watchedSource{followers: map[types.NamespacedName]bool{of: true}, end: end}
	go s.watch(ctx, ref)
}

// Forget stops watching for a NodeSync that was deleted or no longer follows a source.
func (s *FluxSources) Forget(of types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.watches {
		s.leave(of, ref)
	}
}

func (s *FluxSources) leave(of types.NamespacedName, ref v1alpha1.SourceRef) {
	w := s.watches[ref]
	delete(w.followers, of)
	if len(w.followers) == 0 {
		w.end()
		delete(s.watches, ref)
	}
}

// watch enqueues the followers of a source at each change of its artifact until the context ends. It also does so at
// the start, because the artifact may have changed since the lookup.
func (s *FluxSources) watch(ctx context.Context, ref v1alpha1.SourceRef) {
	resource := fluxGroupVersion.WithResource(fluxResources[ref.Kind])
	informer := dynamicinformer.NewFilteredDynamicInformer(s.Watcher, resource, ref.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	}).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.wake(ctx, ref) },
		UpdateFunc: func(before, after any) {
			if readOfSource(before) != readOfSource(after) {
				s.wake(ctx, ref)
			}
		},
		DeleteFunc: func(any) { s.wake(ctx, ref) },
	})
	if err == nil { // the error means that the informer has stopped
		informer.RunWithContext(ctx)
	}
}

// readOfSource returns the fields of a source that affect the result of a lookup.
func readOfSource(object any) string {
	u, is := object.(*unstructured.Unstructured)
	if !is {
		return ""
	}
	var words []string
	for _, field := range []string{"url", "digest", "revision", "lastUpdateTime"} {
		text, _, _ := unstructured.NestedString(u.Object, "status", "artifact", field)
		words = append(words, text)
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, is := c.(map[string]any); is && c["type"] == "Ready" {
			state, _ := c["status"].(string)
			words = append(words, state)
		}
	}
	return strings.Join(words, "\n")
}

func (s *FluxSources) wake(ctx context.Context, ref v1alpha1.SourceRef) {
	var syncs []v1alpha1.NodeSync
	s.mu.Lock()
	if w := s.watches[ref]; w != nil {
		for of := range w.followers {
			syncs = append(syncs, v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}})
		}
	}
	s.mu.Unlock()
	if err := s.Wake(ctx, syncs); err != nil && ctx.Err() == nil {
		ctrl.Log.Error(err, "wake NodeSyncs for a source of Flux", "source", ref.String())
	}
}

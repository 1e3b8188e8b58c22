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

// fluxGroupVersion is the one that is read: Flux 2.6 has it for OCIRepository, 2.7 for ExternalArtifact.
var fluxGroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// FluxSources are those of one cluster.
type FluxSources struct {
	// Reader asks the API server, and Watcher watches.
	Reader  client.Reader
	Watcher dynamic.Interface
	// Namespaces are those in which sources may be followed from other namespaces.
	Namespaces []string
	// Wake has the sources of NodeSyncs looked at now; nil watches none.
	Wake func(ctx context.Context, syncs []v1alpha1.NodeSync) error
	// Now tells the time; nil for the system's clock.
	Now func() time.Time

	mu      sync.Mutex
	watches map[v1alpha1.SourceRef]*watchedSource
}

// Artifact returns the newest artifact of a source, for a NodeSync, which is woken from then on when there is
// another one. The error is a *ArtifactError or a *FluxRefError, or the API server's.
func (s *FluxSources) Artifact(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) (*Artifact, error) {
	if ref.Namespace != of.Namespace && !slices.Contains(s.Namespaces, ref.Namespace) {
		return nil, &FluxRefError{Ref: ref.String(), Problem: fmt.Sprintf("is in namespace %s, and the daemon's --source-namespaces does not list that", ref.Namespace)}
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

// Artifact is what Flux has fetched of a source.
type Artifact struct {
	// Of is the source: kind/namespace/name.
	Of string
	// URL is where source-controller serves it, and Digest that of its bytes: algorithm:hex.
	URL, Digest string
	// Revision in Flux's form: main@sha1:<commit>, latest@sha256:<digest>.
	Revision string
	// Updated is when Flux has made it.
	Updated time.Time
	// Before are artifacts that there were before, by their commits, and when Flux had made each, if that is known.
	Before map[string]time.Time
	// Asked is when the API server was asked for it, before it answered: what changes after that is not in it.
	Asked time.Time
	// Unready is why Flux has not made a newer one; nil if it would have.
	Unready error
}

// fluxState is what is read of a source's status.
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

// artifactOf is the artifact that a source has.
func artifactOf(ref v1alpha1.SourceRef, object *unstructured.Unstructured) (*Artifact, error) {
	var of fluxState
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of); err != nil {
		return nil, fmt.Errorf("read the status of %s: %w", ref, err)
	}
	var unready error
	for _, c := range of.Status.Conditions {
		if c.Type == fluxmeta.ReadyCondition && c.Status == "False" { // Unknown is one that is being fetched
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
	return &Artifact{Of: ref.String(), URL: a.URL, Digest: a.Digest, Revision: a.Revision, Updated: a.LastUpdateTime.Time, Unready: unready}, nil
}

// GitOrFlux fetches from a Git host, or takes what Flux has fetched, as a request says. Of an artifact no
// history is known: a verdict on it is reported on its own commit only.
type GitOrFlux struct {
	*Git
	*FluxSources
	Artifacts *FluxStore
}

// Fetch is that of Git, or of FluxStore.
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

// leave drops what is of Flux for a key that follows it no more.
func (e GitOrFlux) leave(key string) error {
	namespace, name, _ := strings.Cut(key, "/")
	e.FluxSources.Forget(types.NamespacedName{Namespace: namespace, Name: name})
	return e.Artifacts.Forget(key)
}

// Since is that of Git.
func (e GitOrFlux) Since(ctx context.Context, key, applied string, read render.Read, limit int) (commits []string, known bool) {
	if e.Artifacts.Holds(key) {
		return nil, true
	}
	return e.Git.Since(ctx, key, applied, read, limit)
}

// FindSince is that of Git.
func (e GitOrFlux) FindSince(ctx context.Context, req Request, applied string, read render.Read, limit int) ([]string, error) {
	if req.Artifact != nil {
		return nil, nil
	}
	return e.Git.FindSince(ctx, req, applied, read, limit)
}

// Order is that of Git, or of FluxStore.
func (e GitOrFlux) Order(key, commit string) Order {
	if e.Artifacts.Holds(key) {
		return e.Artifacts.Order(key, commit)
	}
	return e.Git.Order(key, commit)
}

// FindOrder is that of Git, or Order: nobody else can be asked of an artifact.
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

// Forget drops what is stored for a NodeSync that is gone.
func (e GitOrFlux) Forget(key string) error { return errors.Join(e.leave(key), e.Git.Forget(key)) }

// watchedSource is a source that is watched, and for whom.
type watchedSource struct {
	followers map[types.NamespacedName]bool
	end       context.CancelFunc
}

// fluxResources are the kinds' names in the API server's paths.
var fluxResources = map[string]string{
	"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets", "ExternalArtifact": "externalartifacts",
}

// follow has a NodeSync woken by one source, and by no other, for longer than the reconcile that asks for it.
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

// Forget ends what a NodeSync has begun that is gone, or follows no source any more.
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

// watch wakes the followers of a source at each change of its artifact, until the context ends, and when it
// begins: the look before that may have come too early.
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
	if err == nil { // it is of an informer that has ended
		informer.RunWithContext(ctx)
	}
}

// readOfSource is what of a source a look at it could find another answer by.
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

package flux

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// watched is a source that is watched, and for whom.
type watched struct {
	followers map[types.NamespacedName]bool
	end       context.CancelFunc
}

// resources are the kinds' names in the API server's paths.
var resources = map[string]string{
	"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets", "ExternalArtifact": "externalartifacts",
}

// follow has a NodeSync woken by one source, and by no other, for longer than the pass that asks for it.
func (s *Sources) follow(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) {
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
		s.watches = map[v1alpha1.SourceRef]*watched{}
	}
	s.watches[ref] = &watched{followers: map[types.NamespacedName]bool{of: true}, end: end}
	go s.watch(ctx, ref)
}

// Forget ends what a NodeSync has begun that is gone, or follows no source any more.
func (s *Sources) Forget(of types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.watches {
		s.leave(of, ref)
	}
}

func (s *Sources) leave(of types.NamespacedName, ref v1alpha1.SourceRef) {
	w := s.watches[ref]
	delete(w.followers, of)
	if len(w.followers) == 0 {
		w.end()
		delete(s.watches, ref)
	}
}

// watch wakes the followers of a source at each change of its artifact, until the context ends, and when it
// begins: the look before that may have come too early.
func (s *Sources) watch(ctx context.Context, ref v1alpha1.SourceRef) {
	resource := groupVersion.WithResource(resources[ref.Kind])
	informer := dynamicinformer.NewFilteredDynamicInformer(s.Watcher, resource, ref.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	}).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.wake(ctx, ref) },
		UpdateFunc: func(before, after any) {
			if says(before) != says(after) {
				s.wake(ctx, ref)
			}
		},
		DeleteFunc: func(any) { s.wake(ctx, ref) },
	})
	if err == nil { // it is of an informer that has ended
		informer.RunWithContext(ctx)
	}
}

// says is what of a source a look at it could find another answer by.
func says(object any) string {
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

func (s *Sources) wake(ctx context.Context, ref v1alpha1.SourceRef) {
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

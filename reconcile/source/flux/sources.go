package flux

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// groupVersion is the one that is read: Flux 2.6 has it for OCIRepository, 2.7 for ExternalArtifact.
var groupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// Sources are those of one cluster.
type Sources struct {
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
	watches map[v1alpha1.SourceRef]*watched
}

// Artifact returns the newest artifact of a source, for a NodeSync, which is woken from then on when there is
// another one. The error is a *source.ArtifactError or a *source.FluxRefError, or the API server's.
func (s *Sources) Artifact(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) (*source.Artifact, error) {
	if ref.Namespace != of.Namespace && !slices.Contains(s.Namespaces, ref.Namespace) {
		return nil, &source.FluxRefError{Ref: ref.String(), Problem: fmt.Sprintf("is in namespace %s, and the daemon's --source-namespaces does not list that", ref.Namespace)}
	}
	if s.Wake != nil {
		s.follow(ctx, of, ref)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(groupVersion.WithKind(ref.Kind))
	asked := s.now()
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	switch {
	case meta.IsNoMatchError(err):
		return nil, &source.FluxRefError{Ref: ref.String(), Problem: fmt.Sprintf("is of a kind that the API server does not serve as %s: install Flux's source-controller, 2.7 or later", groupVersion)}
	case apierrors.IsNotFound(err):
		return nil, &source.FluxRefError{Ref: ref.String(), Problem: "does not exist: create it, or change spec.source.sourceRef"}
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

func (s *Sources) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// state is what is read of a source's status.
type state struct {
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
func artifactOf(ref v1alpha1.SourceRef, object *unstructured.Unstructured) (*source.Artifact, error) {
	var of state
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of); err != nil {
		return nil, fmt.Errorf("read the status of %s: %w", ref, err)
	}
	var unready error
	for _, c := range of.Status.Conditions {
		if c.Type == fluxmeta.ReadyCondition && c.Status == "False" { // Unknown is one that is being fetched
			unready = &source.ArtifactError{Of: ref.String(), Problem: "is not Ready: " + c.Message}
		}
	}
	a := of.Status.Artifact
	switch {
	case a == nil && unready != nil:
		return nil, unready
	case a == nil:
		return nil, &source.ArtifactError{Of: ref.String(), Problem: "has no artifact yet"}
	case a.URL == "" || a.Digest == "" || a.Revision == "":
		return nil, &source.ArtifactError{Of: ref.String(), Problem: "has an artifact without a url, a digest or a revision"}
	}
	return &source.Artifact{Of: ref.String(), URL: a.URL, Digest: a.Digest, Revision: a.Revision, Updated: a.LastUpdateTime.Time, Unready: unready}, nil
}

package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

var (
	prod  = types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}
	fleet = v1alpha1.SourceRef{Kind: "GitRepository", Namespace: "flux-system", Name: "fleet"}
)

// gitRepository is a GitRepository with a status.
func gitRepository(status map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(fluxGroupVersion.WithKind(fleet.Kind))
	object.SetNamespace(fleet.Namespace)
	object.SetName(fleet.Name)
	return object
}

// artifactStatus is the artifact of a commit, as source-controller writes it.
func artifactStatus(commit string) map[string]any {
	return map[string]any{
		"url": "http://source-controller.flux-system.svc.cluster.local./" + commit, "digest": "sha256:" + commit, "revision": "main@sha1:" + commit,
		"path": "gitrepository/flux-system/fleet/" + commit, "lastUpdateTime": "2026-03-01T12:00:00Z",
	}
}

func readyConditions(state, message string) []any {
	return []any{map[string]any{"type": "Reconciling", "status": "True"}, map[string]any{"type": "Ready", "status": state, "message": message}}
}

func TestTheArtifactOfASource(t *testing.T) {
	refused := &meta.NoKindMatchError{GroupKind: fluxGroupVersion.WithKind(fleet.Kind).GroupKind()}
	for name, test := range map[string]struct {
		object     *unstructured.Unstructured
		namespaces []string
		answer     error
		want       string // of the error
		unready    string
	}{
		"there":                        {object: gitRepository(map[string]any{"artifact": artifactStatus("1"), "conditions": readyConditions("True", "stored")})},
		"another namespace":            {object: gitRepository(map[string]any{"artifact": artifactStatus("1")}), namespaces: []string{"flux"}, want: "the daemon's --source-namespaces does not list that"},
		"absent":                       {want: "does not exist"},
		"of no kind that is served":    {answer: refused, want: "install Flux's source-controller"},
		"nothing was fetched yet":      {object: gitRepository(map[string]any{}), want: "has no artifact yet"},
		"nothing can be fetched":       {object: gitRepository(map[string]any{"conditions": readyConditions("False", "authentication required")}), want: "is not Ready: authentication required"},
		"one is being fetched":         {object: gitRepository(map[string]any{"artifact": artifactStatus("1"), "conditions": readyConditions("Unknown", "building artifact")})},
		"the first is being fetched":   {object: gitRepository(map[string]any{"conditions": readyConditions("Unknown", "building artifact")}), want: "has no artifact yet"},
		"nothing newer can be fetched": {object: gitRepository(map[string]any{"artifact": artifactStatus("1"), "conditions": readyConditions("False", "host is away")}), unready: "is not Ready: host is away"},
		"without a digest":             {object: gitRepository(map[string]any{"artifact": map[string]any{"url": "http://a", "revision": "1"}}), want: "without a url, a digest or a revision"},
		"of another shape":             {object: gitRepository(map[string]any{"artifact": "1"}), want: "read the status of GitRepository/flux-system/fleet"},
		"the API server is away":       {answer: errors.New("connection refused"), want: "read GitRepository/flux-system/fleet: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
				if test.answer != nil {
					return test.answer
				}
				return c.Get(ctx, key, object, o...)
			}})
			if test.object != nil {
				b = b.WithObjects(test.object)
			}
			s := &FluxSources{Reader: b.Build(), Namespaces: []string{"flux-system"}}
			if test.namespaces != nil {
				s.Namespaces = test.namespaces
			}
			a, err := s.Artifact(t.Context(), prod, fleet)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a.Revision != "main@sha1:1" || a.Digest != "sha256:1" || a.URL == "" || a.Updated.IsZero() || a.Of != "GitRepository/flux-system/fleet" {
				t.Errorf("%+v", a)
			}
			if test.unready == "" != (a.Unready == nil) || a.Unready != nil && !strings.Contains(a.Unready.Error(), test.unready) {
				t.Errorf("unready: %v, want %s", a.Unready, test.unready)
			}
		})
	}
}

// TestFollowersAreWoken shows that a new artifact of a source enqueues its current followers, and no other change does.
func TestFollowersAreWoken(t *testing.T) {
	object := gitRepository(map[string]any{"artifact": artifactStatus("1"), "conditions": readyConditions("True", "stored")})
	watcher := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		fluxGroupVersion.WithResource("gitrepositories"): "GitRepositoryList",
	}, object)
	woken := make(chan string, 100)
	s := &FluxSources{
		Reader: fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(object).Build(), Watcher: watcher, Namespaces: []string{"flux-system"},
		Wake: func(_ context.Context, syncs []v1alpha1.NodeSync) error {
			for i := range syncs {
				woken <- syncs[i].Name
			}
			return nil
		},
	}
	ask := func() {
		t.Helper()
		if _, err := s.Artifact(t.Context(), prod, fleet); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(what string) {
		t.Helper()
		select {
		case name := <-woken:
			if name != "prod" {
				t.Errorf("%s: %s was woken", what, name)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nobody was woken", what)
		}
	}
	update := func(status map[string]any) {
		t.Helper()
		changed := gitRepository(status)
		if _, err := watcher.Resource(fluxGroupVersion.WithResource("gitrepositories")).Namespace(fleet.Namespace).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	ask()
	heard("the watch begins")
	update(map[string]any{"artifact": artifactStatus("1"), "conditions": readyConditions("True", "stored once more")})
	update(map[string]any{"artifact": artifactStatus("2"), "conditions": readyConditions("True", "stored")})
	heard("another artifact")
	update(map[string]any{"artifact": artifactStatus("2"), "conditions": readyConditions("False", "host is away")})
	heard("it is not Ready")
	if len(woken) != 0 {
		t.Error("woken by what says nothing new")
	}
	if err := (GitOrFlux{Git: NewGit(Options{Dir: t.TempDir()}), FluxSources: s, Artifacts: newFluxStore(t, FluxOptions{})}).Forget(prod.String()); err != nil {
		t.Fatal(err)
	}
	if len(s.watches) != 0 {
		t.Errorf("watched still: %v", s.watches)
	}
}

// TestAnAnswerIsAsOldAsItsQuestion shows that a change during the API server's response still makes another lookup due.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	now := time.Unix(1000, 0)
	reader := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(gitRepository(map[string]any{"artifact": artifactStatus("1")}))
	s := &FluxSources{Namespaces: []string{"flux-system"}, Now: func() time.Time { return now }, Reader: reader.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			err := c.Get(ctx, key, object, o...)
			now = now.Add(time.Second)
			return err
		},
	}).Build()}
	c := newSourceController(t)
	a, err := s.Artifact(t.Context(), prod, fleet)
	if err != nil {
		t.Fatal(err)
	}
	served := c.has(t, "1", map[string]string{"a.yaml": "1"})
	a.URL, a.Digest = served.URL, served.Digest
	if _, began, err := newFluxStore(t, FluxOptions{}).Fetch(t.Context(), prod.String(), *a); err != nil || !began.Equal(time.Unix(1000, 0)) {
		t.Errorf("asked at %s, %v", began, err)
	}
}

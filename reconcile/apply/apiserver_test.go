package apply_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/render"
)

// apiServer is a real API server, without Karpenter.
type apiServer struct {
	client.Client
	t *testing.T
}

func connect(t *testing.T, kubeconfig string) *apiServer {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = -1, -1
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{Client: c, t: t}
	s.install()
	return s
}

// install creates the CRDs, if they are missing, and waits until they are served.
func (s *apiServer) install() {
	s.t.Helper()
	for _, crd := range applytest.CRDs() {
		if err := s.Create(s.t.Context(), crd.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			s.t.Fatal(err)
		}
	}
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		for _, crd := range applytest.CRDs() {
			live := &apiextensionsv1.CustomResourceDefinition{}
			if err := s.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil {
				return false, err
			}
			if !apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
				return false, nil
			}
		}
		return s.discovered()
	})
	if err != nil {
		s.t.Fatalf("wait for the CRDs: %v", err)
	}
}

// discovered reports whether the API server's discovery lists all kinds, which happens a moment after their CRDs are
// Established.
func (s *apiServer) discovered() (bool, error) {
	for _, kind := range render.Kinds() {
		_, err := s.RESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Objects lists all definitions.
func (s *apiServer) Objects() map[render.Ref]*unstructured.Unstructured {
	s.t.Helper()
	objects := map[render.Ref]*unstructured.Unstructured{}
	for _, kind := range render.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GVK)
		if err := s.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
		for i := range list.Items {
			objects[render.Ref{Kind: kind.GVK.Kind, Name: list.Items[i].GetName()}] = &list.Items[i]
		}
	}
	return objects
}

// Reset deletes all definitions and waits until they are gone.
func (s *apiServer) Reset() {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		objects := s.Objects()
		for _, object := range objects {
			if err := s.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
		return len(objects) == 0, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Edit changes an object as a client that does not apply. Edits that the API server rejects are skipped.
func (s *apiServer) Edit(t applytest.TB, ref render.Ref, manager string, change func(*unstructured.Unstructured)) {
	t.Helper()
	object := s.Objects()[ref]
	change(object)
	if err := s.Update(s.t.Context(), object, client.FieldOwner(manager)); err != nil && !apierrors.IsInvalid(err) {
		t.Fatalf("edit %s as %s: %v", ref, manager, err)
	}
}

// ApplyAs applies an object as any field manager.
func (s *apiServer) ApplyAs(ctx context.Context, object *unstructured.Unstructured, manager string, force bool) error {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return s.Patch(ctx, object.DeepCopy(), client.RawPatch(types.ApplyPatchType, data), options...)
}

func decode(t applytest.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%v", err)
	}
	return object
}

func sorted(values []string) []string {
	slices.Sort(values)
	return values
}

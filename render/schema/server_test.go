package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	plumbline "github.com/plumbline-dev/plumbline/render/schema"
)

// server is a real API server that provides the truth.
type server struct {
	t       *testing.T
	objects dynamic.Interface
}

func newServer(t *testing.T, kubeconfig string) *server {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := plumbline.EmbeddedOf(plumbline.LTSVersion)
	if err != nil {
		t.Fatal(err)
	}
	client := definitions.ApiextensionsV1().CustomResourceDefinitions()
	for _, crd := range crds {
		if _, err := client.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		deadline := time.After(30 * time.Second)
		for {
			live, err := client.Get(t.Context(), crd.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) && served(t, config, crd) {
				break
			}
			select {
			case <-deadline:
				t.Fatalf("crd %s is not established", crd.Name)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{t: t, objects: objects}
}

// served reports whether the API server serves the kind of a CRD, which it does a moment after the CRD is Established.
func served(t *testing.T, config *rest.Config, crd *apiextensionsv1.CustomResourceDefinition) bool {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
	_, err = objects.Resource(kind).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func (s *server) client(object *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := object.GroupVersionKind()
	resource := strings.ToLower(gvk.Kind) + "s"
	if gvk.Kind == "EC2NodeClass" {
		resource = "ec2nodeclasses"
	}
	return s.objects.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: resource})
}

func (s *server) apply(object *unstructured.Unstructured) truth {
	live, err := s.client(object).Apply(s.t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "truth", Force: true})
	if err != nil {
		s.t.Fatalf("apply %s: %v", object.GetName(), err)
	}
	defer s.remove(object)
	entries := live.GetManagedFields()
	mine := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "truth" })
	return truth{Fields: entries[mine].FieldsV1.GetRawBytes(), Spec: live.Object["spec"]}
}

func (s *server) refuse(object *unstructured.Unstructured) []string {
	_, err := s.client(object).Create(s.t.Context(), object, metav1.CreateOptions{})
	if err == nil {
		s.remove(object)
		s.t.Fatalf("%s was not refused", object.GetName())
	}
	return said(s.t, err)
}

func (s *server) replace(old, object *unstructured.Unstructured) []string {
	live, err := s.client(old).Create(s.t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("create %s: %v", old.GetName(), err)
	}
	defer s.remove(old)
	object.SetResourceVersion(live.GetResourceVersion())
	if _, err := s.client(object).Update(s.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		return said(s.t, err)
	}
	return nil
}

func (s *server) remove(object *unstructured.Unstructured) {
	if err := s.client(object).Delete(s.t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
		s.t.Errorf("delete %s: %v", object.GetName(), err)
	}
}

// said returns the causes in an API server's error.
func said(t *testing.T, err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		t.Fatalf("a refusal without causes: %v", err)
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		all = append(all, cause.Field+": "+cause.Message)
	}
	slices.Sort(all)
	return all
}

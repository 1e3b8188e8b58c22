package simulate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	c := &simulate.Capture{
		Version: simulate.Version, TakenAt: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Unread: []string{"a"},
		Definitions: []map[string]any{{"kind": "NodePool"}}, Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
	}
	file := &bytes.Buffer{}
	if err := c.Encode(file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	got, err := simulate.DecodeCapture(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Error(diff)
	}
	if _, err := simulate.DecodeCapture(bytes.NewReader(whole[:len(whole)/2])); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("half a file: %v", err)
	}
}

// TestBadFilesAreNamed checks that each invalid file results in an error that says what it is.
func TestBadFilesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"another version":              {`{"version":2,"definitions":[]}`, "version 2"},
		"another version's other form": {`{"version":2,"pods":"none"}`, "version 2"},
		"something else":               {`{"apiVersion":"v1"}`, "has no version"},
		"no JSON":                      {`apiVersion: v1`, "no file of plumbline snapshot"},
		"pods that are none":           {`{"version":1,"pods":"none"}`, "no file of plumbline snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulate.DecodeCapture(packed(t, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	const most = 1 << 20
	bomb := packed(t, `{"version":1,"unread":["`+strings.Repeat("a", 2*most)+`"]}`)
	if _, err := simulate.DecodeUpTo(bomb, most); err == nil || !strings.Contains(err.Error(), "unpacks to more than 1 MiB") {
		t.Errorf("a file that unpacks to more: %v", err)
	}
	if _, err := simulate.DecodeCapture(strings.NewReader("{}")); err == nil {
		t.Error("a file that is not packed is read")
	}
}

// packed returns a text in gzip.
func packed(t *testing.T, text string) *bytes.Buffer {
	t.Helper()
	file := &bytes.Buffer{}
	out := gzip.NewWriter(file)
	if _, err := fmt.Fprint(out, text); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// server serves pods in pages of one, a class with user data, and refuses the kinds that a test names.
type server struct {
	client.Reader
	refuse string
}

func (s server) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	switch l := list.(type) {
	case *corev1.PodList:
		if s.refuse == "pods" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		name, next := "first", "more"
		if asked.Continue != "" {
			name, next = "second", ""
		}
		l.Items, l.Continue = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}, next
		if asked.Limit == 0 {
			l.Items = nil
		}
	case *policyv1.PodDisruptionBudgetList:
		if s.refuse == "budgets" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, "", nil)
		}
	case *appsv1.DeploymentList:
		version := metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/version": "1.14.3"}}
		l.Items = []appsv1.Deployment{{ObjectMeta: version, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "FEATURE_GATES", Value: "NodeRepair=false,NodeOverlay=true"}, {Name: "AWS_FEATURE_GATES", Value: "NodeClassCEL=true"}, {Name: "SCHEDULER_CONFIG", Value: "podTopologySpread: {}"}, {Name: "VM_MEMORY_OVERHEAD_PERCENT", Value: "0.05"}, {Name: "PASSWORD", Value: "hush"},
		}}}}}}}}
	case *unstructured.UnstructuredList:
		if l.GetKind() == "EC2NodeClass" {
			l.Items = []unstructured.Unstructured{{Object: map[string]any{"kind": "EC2NodeClass", "metadata": map[string]any{"name": "c", "annotations": map[string]any{"note": "hush", "karpenter.sh/x": "y"}}, "spec": map[string]any{"userData": "hush"}}}}
		}
	}
	return nil
}

func TestAClusterIsReadInPages(t *testing.T) {
	c, err := simulate.ReadCapture(t.Context(), server{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Pods) != 2 || len(c.Unread) != 0 || !c.Settings.NodeOverlay || !c.Settings.NodeClassCEL || !c.Settings.SchedulerConfig || c.Settings.VMMemoryOverheadPercent != 0.05 || c.Settings.Karpenter != "1.14.3" {
		t.Errorf("%+v", c)
	}
	class := unstructured.Unstructured{Object: c.Definitions[0]}
	data, _, _ := unstructured.NestedString(class.Object, "spec", "userData")
	if !strings.HasPrefix(data, "sha256:") || len(class.GetAnnotations()) != 1 {
		t.Errorf("the class: %v", class.Object)
	}
	for inGit, want := range map[string]string{"hush": "hush", "other": data} {
		got, _, _ := unstructured.NestedString(c.WithUserData(func(string) string { return inGit })[0], "spec", "userData")
		if got != want {
			t.Errorf("with %q in Git the user data is %q", inGit, got)
		}
	}
}

// TestWhatMayNotBeReadIsNamed checks this, and that the read fails without pods.
func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	c, err := simulate.ReadCapture(t.Context(), server{refuse: "budgets"}, time.Now())
	if err != nil || len(c.Unread) != 1 || !strings.Contains(c.Unread[0], "allow list of poddisruptionbudgets.policy") {
		t.Errorf("%v, %+v", err, c)
	}
	if _, err := simulate.ReadCapture(t.Context(), server{refuse: "pods"}, time.Now()); !apierrors.IsForbidden(err) {
		t.Errorf("without pods: %v", err)
	}
}

package observe_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// TestRewritten: each edit of what a chart made is heard of, and no status.
func TestRewritten(t *testing.T) {
	role := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		object := observe.Charted(observe.ChartedKinds()[3])
		object.Name, object.UID, object.ResourceVersion = "karpenter-core", "1", "7"
		object.Labels = map[string]string{"app.kubernetes.io/name": "karpenter"}
		change(object)
		return object
	}
	cases := map[string]struct {
		before, after func(*metav1.PartialObjectMetadata)
		want          bool
	}{
		"a kind without generations was written": {func(*metav1.PartialObjectMetadata) {}, func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "8" }, true},
		"a status was written":                   {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation, o.ResourceVersion = 1, "8" }, false},
		"a spec was":                             {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation = 2 }, true},
		"an annotation was":                      {func(o *metav1.PartialObjectMetadata) { o.Generation = 1 }, func(o *metav1.PartialObjectMetadata) { o.Generation, o.Annotations = 1, map[string]string{"a": "b"} }, true},
		"it was made anew":                       {func(*metav1.PartialObjectMetadata) {}, func(o *metav1.PartialObjectMetadata) { o.UID = "2" }, true},
		"it was sent once more":                  {func(*metav1.PartialObjectMetadata) {}, func(*metav1.PartialObjectMetadata) {}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := observe.Rewritten().Update(event.UpdateEvent{ObjectOld: role(c.before), ObjectNew: role(c.after)}); got != c.want {
				t.Errorf("heard of: %t, want %t", got, c.want)
			}
		})
	}
}

// TestTrimCharted: of what a chart made the cache keeps a few hundred bytes each,
// of Karpenter's alone.
func TestTrimCharted(t *testing.T) {
	options := observe.CacheOptions(&observe.Refusals{}, &render.Values{})
	seen := 0
	for of, rule := range options.ByObject {
		full, ok := of.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		seen++
		if rule.Label.Matches(labels.Set{"app.kubernetes.io/name": "coredns"}) || !rule.Label.Matches(labels.Set(observe.ControllerLabels())) {
			t.Errorf("the cache selects each %s by %s", full.Kind, rule.Label)
		}
		full.Name, full.ResourceVersion, full.Labels = "karpenter", "7", observe.ControllerLabels()
		full.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 3000), "meta.helm.sh/release-name": "karpenter"}
		full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "plumbline", FieldsV1: metav1.NewFieldsV1(`{"f:rules":"` + strings.Repeat("x", 3000) + `"}`)}}
		trimmed, err := rule.Transform(full)
		if err != nil {
			t.Fatal(err)
		}
		kept := trimmed.(*metav1.PartialObjectMetadata)
		if got := size(t, kept); got > 400 || kept.ResourceVersion != "7" || kept.Annotations["meta.helm.sh/release-name"] != "karpenter" {
			t.Errorf("a %s is kept with %d bytes: %+v", full.Kind, got, kept)
		}
	}
	if want := len(observe.ChartedKinds()); seen != want {
		t.Errorf("%d kinds are selected, want %d", seen, want)
	}
}

package release

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// theirs removes our marks from a revision, as if another client had made it.
func (b *bed) theirs(secret string) {
	b.Helper()
	object := b.api.get(secretsPath + secret)
	labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
	for _, mark := range []string{versionLabel, digestLabel, valuesLabel, revisionLabel} {
		delete(labels, mark)
	}
	b.api.put(secretsPath+secret, object)
}

func TestWhatKubectlMadeBecomesTheReleases(t *testing.T) {
	b := newBed(t)
	path := crdsPath + "/nodepools.karpenter.sh"
	b.api.put(path, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "nodepools.karpenter.sh", "uid": "theirs"},
	})
	b.want.Adopt = true
	if result, err := b.crds(); err != nil || !result.Changed {
		t.Fatalf("EnsureCRDs() = %+v, %v", result, err)
	}
	metadata := b.api.get(path)["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if metadata["uid"] != "theirs" || annotations["meta.helm.sh/release-name"] != charts.CRDChart || annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy {
		t.Errorf("the CRD has %v", metadata)
	}
	for _, write := range b.api.takeWrites() {
		if strings.HasPrefix(write, http.MethodDelete) {
			t.Errorf("it deleted: %s", write)
		}
	}
}

func TestAReleaseOfTheirsGoesOn(t *testing.T) {
	b := newBed(t)
	b.both()
	b.theirs("sh.helm.release.v1.karpenter.v1")
	b.want.Adopt = true
	result, err := b.controller()
	if err != nil || result.Step != Adopt || result.Revision != 2 {
		t.Fatalf("EnsureController() = %+v, %v", result, err)
	}
	b.want.Adopt = false // after adoption the line may be removed
	if result, err := b.controller(); err != nil || result.Changed {
		t.Errorf("again = %+v, %v; want nothing done", result, err)
	}
}

// TestWhatCarriesNodesIsNotDropped: Helm would delete what is in their chart but not in ours.
func TestWhatCarriesNodesIsNotDropped(t *testing.T) {
	manifest := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: karpenter}\n" +
		"---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: nodepools.karpenter.sh}\n"
	if got := objectsWithNodes(manifest); !slices.Contains(got, "NodePool general") || !slices.Contains(got, "nodepools.karpenter.sh") || len(got) != 2 {
		t.Errorf("carried() = %v, want the CRD and the pool", got)
	}
	dropped := (*DroppedCRDsError)(nil)
	if err := (&rehearsal{before: []string{"NodePool general"}}).protect(nil); !errors.As(err, &dropped) {
		t.Errorf("protect() = %v, want DroppedCRDsError", err)
	}
}

package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Class is what keeps an EC2NodeClass that was deleted.
type Class struct {
	Class   string      `json:"class"`
	Deleted metav1.Time `json:"deleted"`
	// NodeClaims are how many are on it, and NodePools those that name it.
	NodeClaims int      `json:"nodeClaims"`
	NodePools  []string `json:"nodePools,omitempty"`
	// Finalizers are those that the class still has: it is gone once each was removed.
	Finalizers []string `json:"finalizers,omitempty"`
	// Commit is YAML of what Git has to say to move them to a copy; empty if no NodePool names it.
	Commit string `json:"commit,omitempty"`
}

// OfClass returns what uses an EC2NodeClass that is being deleted, and the commit that moves its nodes to a copy.
func OfClass(name string, classes, pools []unstructured.Unstructured, claims []karpv1.NodeClaim) (*Class, error) {
	ref := render.Ref{Kind: render.EC2NodeClass, Name: name}
	has := func(name string) int {
		return slices.IndexFunc(classes, func(o unstructured.Unstructured) bool { return o.GetName() == name })
	}
	at := has(name)
	if at < 0 {
		return nil, fmt.Errorf("%s not found", ref)
	}
	class := classes[at]
	if class.GetDeletionTimestamp() == nil {
		return nil, fmt.Errorf("%s is not being deleted: nothing keeps nodes from being launched from it by that", ref)
	}
	report := &Class{Class: ref.String(), Deleted: *class.GetDeletionTimestamp(), Finalizers: class.GetFinalizers()}
	for i := range claims {
		if names := claims[i].Spec.NodeClassRef; names != nil && names.Name == name {
			report.NodeClaims++
		}
	}
	copied := plan.CopyName(name, func(name string) bool { return has(name) >= 0 })
	documents := []any{map[string]any{
		"apiVersion": class.GetAPIVersion(), "kind": class.GetKind(), "metadata": map[string]any{"name": copied}, "spec": class.Object["spec"],
	}}
	for i := range pools {
		ref := render.Ref{Kind: render.NodePool, Name: pools[i].GetName()}
		if named, ok := render.Reference(ref, &pools[i]); ok && named.Name == name {
			report.NodePools = append(report.NodePools, ref.String())
			documents = append(documents, pointed(&pools[i], copied))
		}
	}
	if len(report.NodePools) > 0 {
		commit, err := yamlOf(documents)
		if err != nil {
			return nil, err
		}
		report.Commit = commit
	}
	return report, nil
}

// pointed are the fields by which a NodePool names a class.
func pointed(pool *unstructured.Unstructured, class string) any {
	fields := &unstructured.Unstructured{Object: map[string]any{}}
	fields.SetAPIVersion(pool.GetAPIVersion())
	fields.SetKind(pool.GetKind())
	fields.SetName(pool.GetName())
	kind, _ := render.KindOf(render.NodePool)
	_ = unstructured.SetNestedField(fields.Object, class, kind.RefPath...) // each map on the way is new
	return fields.Object
}

// yamlOf are documents of one file.
func yamlOf(documents []any) (string, error) {
	var texts []string
	for _, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			return "", fmt.Errorf("write YAML: %w", err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n"), nil
}

// WaitsFor is what a class that no NodePool names waits for. Karpenter removes its finalizer once no NodeClaim names the
// class and its instance profiles are deleted (karpenter-provider-aws pkg/controllers/nodeclass/controller.go); why it
// does not stands only in its log.
func (r *Class) WaitsFor() string {
	if r.NodeClaims > 0 {
		return english.PluralWord(r.NodeClaims, "that NodeClaim", "these NodeClaims") + " to be deleted"
	}
	words := blocker.WaitsForFinalizers(r.Finalizers)
	if slices.Contains(r.Finalizers, awsv1.TerminationFinalizer) {
		words += "; where that does not happen within a minute, the log of Karpenter's controller has its message"
	}
	return words
}

// Pool is what keeps a NodePool that leaves.
type Pool struct {
	// NodeSync is the one that removes it.
	NodeSync string `json:"nodeSync"`

	v1alpha1.Removal `json:",inline"`

	// Grace is spec.removal.grace of the NodeSync.
	Grace time.Duration `json:"-"`
}

// breakGlassOf are the commands for a node, by its name or its NodeClaim's.
func (r Pool) breakGlassOf(node, claim string) []v1alpha1.BreakGlass {
	return slices.DeleteFunc(slices.Clone(r.BreakGlass), func(g v1alpha1.BreakGlass) bool {
		return g.Node == "" || g.Node != node && g.Node != claim
	})
}

// Removals are those of a NodePool, by the statuses of NodeSyncs.
func Removals(syncs []v1alpha1.NodeSync, pool string) (found []Pool) {
	for i := range syncs {
		for _, removal := range syncs[i].Status.Removals {
			if removal.Kind == render.NodePool && removal.Name == pool {
				found = append(found, Pool{NodeSync: syncs[i].Name, Removal: removal, Grace: syncs[i].GetRemovalGrace()})
			}
		}
	}
	return found
}

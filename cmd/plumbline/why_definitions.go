package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// classReport is what keeps an EC2NodeClass that was deleted.
type classReport struct {
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

// withoutKind is a name as `kubectl get -o name` prints it, without the kind.
func withoutKind(arg string) string {
	kind, name, typed := strings.Cut(arg, "/")
	if typed && slices.Contains([]string{"node", "nodes", "nodeclaim", "nodeclaims", "nodeclaim.karpenter.sh", "nodeclaims.karpenter.sh"}, strings.ToLower(kind)) {
		return name
	}
	return arg
}

// classNamed is the class that an argument names as kind/name; false if it names another kind.
func classNamed(arg string) (name string, is bool) {
	ref, err := refOfArgument(arg)
	return ref.Name, err == nil && ref.Kind == render.EC2NodeClass
}

// whyClass prints what keeps a class, and the commit that ends that.
func whyClass(ctx context.Context, c *clusterAccess, name string, out io.Writer, output *format) error {
	report, err := classOf(ctx, c, name)
	if err != nil {
		return err
	}
	return output.write(out, report, func(out io.Writer) error {
		report.print(&visibleWriter{out})
		return nil
	})
}

// classOf reads who uses a class that is being deleted.
func classOf(ctx context.Context, c *clusterAccess, name string) (*classReport, error) {
	ref := render.Ref{Kind: render.EC2NodeClass, Name: name}
	classKind, _ := render.KindOf(render.EC2NodeClass)
	poolKind, _ := render.KindOf(render.NodePool)
	classes, err := definitionsOf(ctx, c, classKind)
	if err != nil {
		return nil, err
	}
	pools, err := definitionsOf(ctx, c, poolKind)
	if err != nil {
		return nil, err
	}
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
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	report := &classReport{Class: ref.String(), Deleted: *class.GetDeletionTimestamp(), Finalizers: class.GetFinalizers()}
	for i := range claims.Items {
		if names := claims.Items[i].Spec.NodeClassRef; names != nil && names.Name == name {
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
		report.Commit, err = yamlOf(documents)
	}
	return report, err
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

// waitsFor is what a class that no NodePool names waits for. Karpenter removes its finalizer once no NodeClaim names the
// class and its instance profiles are deleted (karpenter-provider-aws pkg/controllers/nodeclass/controller.go); why it
// does not stands only in its log.
func (r *classReport) waitsFor() string {
	if r.NodeClaims > 0 {
		return english.PluralWord(r.NodeClaims, "that NodeClaim", "these NodeClaims") + " to be deleted"
	}
	words := blocker.WaitsForFinalizers(r.Finalizers)
	if slices.Contains(r.Finalizers, awsv1.TerminationFinalizer) {
		words += "; where that does not happen within a minute, the log of Karpenter's controller has its message"
	}
	return words
}

// print shows it to people.
func (r *classReport) print(out io.Writer) {
	fmt.Fprintf(out, "%s was deleted %s ago, and %s on it: no node is launched from it, and the deletion cannot be undone\n",
		r.Class, age(r.Deleted), english.Plural(r.NodeClaims, "NodeClaim is", "NodeClaims are"))
	if r.Commit == "" {
		fmt.Fprintf(out, "\nno NodePool names it: it waits for %s\n", r.waitsFor())
		return
	}
	fmt.Fprintf(out, "\n%s\n", "named by  "+strings.Join(r.NodePools, ", "))
	fmt.Fprintf(out, "\n# With spec.removal.rescue: true the NodeSync does this by itself. Otherwise commit a copy of the class,\n# and in these NodePools its name: Karpenter replaces their nodes, and the deleted class then goes.\n%s", r.Commit)
}

// poolReport is what keeps a NodePool that leaves.
type poolReport struct {
	// NodeSync is the one that removes it.
	NodeSync string `json:"nodeSync"`

	v1alpha1.Removal `json:",inline"`
}

// breakGlassOf are the commands for a node, by its name or its NodeClaim's.
func (r poolReport) breakGlassOf(node, claim string) []v1alpha1.BreakGlass {
	return slices.DeleteFunc(slices.Clone(r.BreakGlass), func(g v1alpha1.BreakGlass) bool {
		return g.Node == "" || g.Node != node && g.Node != claim
	})
}

// removalsOf are the removals of a NodePool.
func removalsOf(ctx context.Context, c *clusterAccess, pool string) ([]poolReport, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	var found []poolReport
	for i := range syncs.Items {
		for _, removal := range syncs.Items[i].Status.Removals {
			if removal.Kind == render.NodePool && removal.Name == pool {
				found = append(found, poolReport{NodeSync: syncs.Items[i].Name, Removal: removal})
			}
		}
	}
	return found, nil
}

// poolNamed is the NodePool that an argument names as kind/name; false if it names another kind.
func poolNamed(arg string) (name string, is bool) {
	ref, err := refOfArgument(arg)
	return ref.Name, err == nil && ref.Kind == render.NodePool
}

// whyPool prints what keeps a NodePool that leaves.
func whyPool(ctx context.Context, c *clusterAccess, name string, out io.Writer, output *format) error {
	removals, err := removalsOf(ctx, c, name)
	switch {
	case err != nil:
		return err
	case len(removals) == 0:
		kind, _ := render.KindOf(render.NodePool)
		pools, err := definitionsOf(ctx, c, kind)
		if err == nil && !slices.ContainsFunc(pools, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("NodePool/%s not found", name)
		}
		return fmt.Errorf("no NodeSync in %s removes NodePool/%s, or ends its nodes: see plumbline why NODE of one of them", c.in(ctx), name)
	}
	return output.write(out, removals[0], func(out io.Writer) error {
		removals[0].print(&visibleWriter{out}, time.Now())
		return nil
	})
}

// print shows it to people.
func (r poolReport) print(out io.Writer, now time.Time) {
	fmt.Fprintf(out, "%s leaves by nodesync/%s: %s, %s\n\n", plan.Moved("NodePool/"+r.Name, r.MovesTo), r.NodeSync, summary.PhaseWord(r.Removal), english.Plural(int(r.Remaining), "node left", "nodes left"))
	fmt.Fprintf(out, "kept by     %s\n", summary.WaitsFor(r.Removal, now))
	if r.Revision != "" {
		fmt.Fprintf(out, "commit      %s, the first one without the pool\n", render.ShortRevision(r.Revision))
	}
	for _, g := range r.BreakGlass {
		fmt.Fprintf(out, "at your own risk   %s, %s: %s (%s)\n", g.Node, g.Cause, g.Command, g.Risk)
	}
}

// compare says of a NodeClaim that Karpenter has not found outdated whether it matches its definitions all
// the same: Karpenter looks at each within minutes of a change, and never finds one without a hash.
func (r *whyReport) compare(ctx context.Context, c *clusterAccess, claim *karpv1.NodeClaim) error {
	if claim.Status.ProviderID == "" {
		return nil // it is being launched
	}
	seen := cluster.NodeClaim(claim)
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: []plan.NodeClaim{seen}}
	var definitions []*plan.Object
	match := plan.Match{Exact: true, Since: time.Now(), Memory: &plan.MatchMemory{}}
	for ref, version := range map[render.Ref]string{
		{Kind: render.NodePool, Name: seen.Pool}: "karpenter.sh/v1", {Kind: render.EC2NodeClass, Name: seen.Class}: "karpenter.k8s.aws/v1",
	} {
		if ref.Name == "" {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(version)
		object.SetKind(ref.Kind)
		switch err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, object); {
		case apierrors.IsForbidden(err):
			r.Unknown = fmt.Sprintf("you are not allowed to read %s, and Karpenter has not found it outdated", ref)
			return nil
		case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", ref, err)
		}
		live.Objects[ref] = plan.NewObject(object)
		definitions, match.Unhashed = append(definitions, live.Objects[ref]), append(match.Unhashed, ref.String())
	}
	match.Live = live
	switch found := match.Outdated(definitions); {
	case len(found.Outdated) > 0:
		r.Outdated = found.Outdated[0].Reason
	case len(found.Unresolved) > 0:
		r.Unknown = "Karpenter has yet to find the AMIs of " + render.EC2NodeClass + "/" + seen.Class
	case len(found.Unknown) > 0:
		r.Unknown = "it lacks the hash by which Karpenter compares it with its definitions: delete it to have it replaced"
	default:
		r.Unknown = settling(ctx, c, live.Objects[render.Ref{Kind: render.NodePool, Name: seen.Pool}])
	}
	return nil
}

// settling reports that AWS decides which nodes of a pool a commit has outdated, and that Karpenter may not have
// looked at each since; empty if it has.
func settling(ctx context.Context, c *clusterAccess, pool *plan.Object) string {
	syncs := &v1alpha1.NodeSyncList{}
	if pool == nil || c.List(ctx, syncs, client.InNamespace(c.in(ctx))) != nil {
		return ""
	}
	for i := range syncs.Items {
		sync := &syncs.Items[i]
		label, _ := plan.OwnerOf(sync.Namespace, sync.Name).Label()
		rollout, now := sync.Status.Rollout, time.Now()
		if pool.GetLabels()[v1alpha1.OwnerLabel] != label || rollout == nil || rollout.SettlesAt == nil || !now.Before(rollout.SettlesAt.Time) {
			continue
		}
		return strings.TrimSpace(fmt.Sprintf("Karpenter asks AWS which nodes %s outdates, until %s", render.ShortRevision(rollout.Revision), plan.ClockTime(rollout.SettlesAt.Time, now)))
	}
	return ""
}

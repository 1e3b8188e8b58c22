package stories_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// ending is everything that a user could see of a scene's result.
type ending struct {
	// Definitions are specs and labels by KIND/NAME.
	Definitions map[string]any
	// CRDs are Karpenter's.
	CRDs []string
	// Releases are Helm's, each with the status of its newest revision.
	Releases map[string]string
	// Ready and Removals are the NodeSync's, empty if it is gone.
	Ready    string
	Removals []string
	// Nodes is the number of instances that EC2 bills, by pool and in total.
	Nodes map[string]int
}

// ending reads the current state.
func (s *story) ending(ctx context.Context, sync string) (*ending, error) {
	e := &ending{Definitions: map[string]any{}, Releases: map[string]string{}, Nodes: map[string]int{}}
	for _, kind := range []string{"nodepool", "ec2nodeclass"} {
		for _, object := range s.c.list(ctx, kind) {
			what := kind + "/" + object.GetName()
			if object.GetDeletionTimestamp() != nil {
				what += ", going"
			}
			e.Definitions[what] = map[string]any{"spec": object.Object["spec"], "labels": object.GetLabels()}
		}
	}
	e.CRDs = s.karpenterCRDs(ctx)
	releases, err := s.releases(ctx)
	if err != nil {
		return nil, err
	}
	for name, newest := range releases {
		e.Releases[name] = newest.status
	}
	if object, err := s.get(ctx, "nodesync/"+sync); err == nil {
		ready := conditionOf(object, "Ready")
		e.Ready = ready["status"] + " " + ready["reason"]
		removals, _, _ := unstructured.NestedSlice(object.Object, "status", "removals")
		for _, removal := range removals {
			fields, _ := removal.(map[string]any)
			e.Removals = append(e.Removals, fmt.Sprint(fields["kind"], "/", fields["name"], " ", fields["phase"], " ", fields["reason"]))
		}
	}
	for _, pool := range []string{"general", "batch"} {
		e.Nodes[pool] = len(s.billed(pool))
	}
	e.Nodes["all"] = len(s.billed(""))
	return e, nil
}

// revision is the newest revision of a release.
type revision struct {
	number int
	status string
}

// releases reads Helm's own records: the newest revision of each release.
func (s *story) releases(ctx context.Context) (map[string]revision, error) {
	secrets, err := s.c.Kube.Client.CoreV1().Secrets(sandbox.ChartNamespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return nil, err
	}
	newest := map[string]revision{}
	for i := range secrets.Items {
		labels := secrets.Items[i].Labels
		var number int
		if _, err := fmt.Sscan(labels["version"], &number); err != nil {
			return nil, fmt.Errorf("read the revision of secret %s: %w", secrets.Items[i].Name, err)
		}
		if number > newest[labels["name"]].number {
			newest[labels["name"]] = revision{number, labels["status"]}
		}
	}
	return newest, nil
}

// karpenterGroups are those of the CRDs in Karpenter's chart.
var karpenterGroups = []string{".karpenter.sh", ".karpenter.k8s.aws", ".autoscaling.x-k8s.io"}

// karpenterCRDs returns the names of the CRDs of Karpenter's groups.
func (s *story) karpenterCRDs(ctx context.Context) []string {
	var names []string
	for _, crd := range s.c.list(ctx, "crd") {
		name := crd.GetName()
		if slices.ContainsFunc(karpenterGroups, func(group string) bool { return strings.HasSuffix(name, group) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unlike returns how two endings differ; nil if they do not.
func (e *ending) unlike(want *ending) error {
	if diff := cmp.Diff(want, e); diff != "" {
		return fmt.Errorf("it ended otherwise than without a kill (-without +with):\n%s", diff)
	}
	return nil
}

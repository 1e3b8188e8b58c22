package apply_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

var kubeconfig = flag.String("apiserver", "", "kubeconfig of an API server: hold the properties against it too; it must have no NodePools that anybody needs, and no Karpenter")

// server is what the properties are held against.
type server interface {
	apply.Client
	apply.Reader
	Reset()
	Objects() map[render.Ref]*unstructured.Unstructured
	Edit(t applytest.TB, ref render.Ref, manager string, change func(*unstructured.Unstructured))
	ApplyAs(ctx context.Context, object *unstructured.Unstructured, manager string, force bool) error
}

// knowledge is what is known of the definitions' types.
type knowledge interface {
	FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error)
	ValidateUpdate(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList
	Default(object *unstructured.Unstructured)
}

// choices are fields that Git or a person may set, each with values that are
// valid in every combination.
func choices(kind string) map[string][]any {
	if kind == render.EC2NodeClass {
		return map[string][]any{
			"spec.userData":                         {"one", "two"},
			"spec.detailedMonitoring":               {true, false},
			"spec.tags.team":                        {"data", "web"},
			"spec.tags.tier":                        {"1"},
			"spec.metadataOptions.httpTokens":       {"required", "optional"},
			"spec.metadataOptions.httpEndpoint":     {"enabled"},
			"spec.kubelet.maxPods":                  {int64(50), int64(110)},
			"spec.blockDeviceMappings":              {[]any{map[string]any{"deviceName": "/dev/xvda", "ebs": map[string]any{"volumeSize": "20Gi"}}}},
			"spec.associatePublicIPAddress":         {true, false},
			"metadata.labels.team":                  {"data", "web"},
			"metadata.annotations.description":      {"a class"},
			"spec.metadataOptions.httpProtocolIPv6": {"enabled", "disabled"},
		}
	}
	return map[string][]any{
		"spec.limits.cpu":                           {"10", "20"},
		"spec.limits.memory":                        {"1Gi", "2Gi"},
		"spec.weight":                               {int64(1), int64(2)},
		"spec.disruption.consolidateAfter":          {"0s", "1m", "Never"},
		"spec.disruption.consolidationPolicy":       {"WhenEmpty", "WhenEmptyOrUnderutilized"},
		"spec.disruption.budgets":                   {[]any{map[string]any{"nodes": "5%"}}, []any{map[string]any{"nodes": "1"}, map[string]any{"nodes": "20%", "reasons": []any{"Drifted"}}}},
		"spec.template.metadata.labels.team":        {"data", "web"},
		"spec.template.metadata.labels.tier":        {"1"},
		"spec.template.metadata.annotations.note":   {"x"},
		"spec.template.spec.expireAfter":            {"24h", "720h", "Never"},
		"spec.template.spec.terminationGracePeriod": {"1h"},
		"spec.template.spec.taints":                 {[]any{map[string]any{"key": "a", "effect": "NoSchedule"}}, []any{map[string]any{"key": "a", "effect": "NoSchedule"}, map[string]any{"key": "b", "value": "c", "effect": "NoExecute"}}},
		"spec.template.spec.requirements":           {[]any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot", "on-demand"}}}},
		"metadata.labels.team":                      {"data", "web"},
		"metadata.annotations.description":          {"a pool"},
		"spec.template.spec.startupTaints":          {[]any{map[string]any{"key": "s", "effect": "NoSchedule"}}},
	}
}

// required are fields that an edit does not take away.
func required(path string) bool { return path == "spec.template.spec.requirements" }

// steps splits a path; no key in choices has a dot in it.
func steps(path string) []string {
	var keys []string
	for len(path) > 0 {
		i := 0
		for i < len(path) && path[i] != '.' {
			i++
		}
		keys = append(keys, path[:i])
		path = path[min(i+1, len(path)):]
	}
	return keys
}

// touch sets a random field of the object, or takes it away.
func touch(t *rapid.T, object *unstructured.Unstructured, what string) {
	fields := choices(object.GetKind())
	paths := make([]string, 0, len(fields))
	for path := range fields {
		paths = append(paths, path)
	}
	path := rapid.SampledFrom(sorted(paths)).Draw(t, what+" field")
	if !required(path) && rapid.Bool().Draw(t, what+" takes away") {
		unstructured.RemoveNestedField(object.Object, steps(path)...)
		return
	}
	value := rapid.SampledFrom(fields[path]).Draw(t, what+" value")
	if err := unstructured.SetNestedField(object.Object, value, steps(path)...); err != nil {
		t.Fatal(err)
	}
}

// complete adds what the CRD requires beside a field (karpenter
// pkg/apis/crds/karpenter.sh_nodepools.yaml).
func complete(t *rapid.T, object *unstructured.Unstructured) {
	disruption, found, err := unstructured.NestedMap(object.Object, "spec", "disruption")
	if err != nil {
		t.Fatal(err)
	}
	if found && disruption["consolidateAfter"] == nil {
		disruption["consolidateAfter"] = "5m"
		object.Object["spec"].(map[string]any)["disruption"] = disruption
	}
}

// git is a random repository with one class and up to two pools.
func git(t *rapid.T, known knowledge, what string) *render.Set {
	set := &render.Set{Revision: what}
	texts := []string{class, poolWithoutLimits}
	if rapid.Bool().Draw(t, what+" has a second pool") {
		texts = append(texts, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
`)
	}
	for _, text := range texts {
		desired := decode(t, text)
		for range rapid.IntRange(0, 4).Draw(t, what+" fields of "+desired.GetName()) {
			touch(t, desired, what)
		}
		complete(t, desired)
		defaulted := desired.DeepCopy()
		known.Default(defaulted)
		set.Objects = append(set.Objects, render.Object{
			Ref: render.Ref{Kind: desired.GetKind(), Name: desired.GetName()}, Desired: desired, Defaulted: defaulted,
		})
	}
	return set
}

// others do random things to what lives. webhook says that a manager took part
// whose fields nobody takes away.
func others(t *rapid.T, s server) (webhook bool) {
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		refs := make([]string, 0, 3)
		objects := s.Objects()
		byName := map[string]render.Ref{}
		for ref := range objects {
			refs, byName[ref.String()] = append(refs, ref.String()), ref
		}
		ref := byName[rapid.SampledFrom(sorted(refs)).Draw(t, "edited object")]
		manager := rapid.SampledFrom([]string{"kubectl-edit", "kubectl-client-side-apply", "k9s", "some-webhook", "kustomize-controller", v1alpha1.RemovalFieldManager}).Draw(t, "manager")
		if manager == v1alpha1.RemovalFieldManager {
			if ref.Kind == render.NodePool {
				stop(t, s, ref)
			}
			continue
		}
		webhook = webhook || manager == "some-webhook"
		s.Edit(t, ref, manager, func(o *unstructured.Unstructured) { touch(t, o, "edit") })
	}
	return webhook
}

func stop(t *rapid.T, s server, ref render.Ref) {
	growth := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
	growth.SetAPIVersion("karpenter.sh/v1")
	growth.SetKind(ref.Kind)
	growth.SetName(ref.Name)
	if err := s.ApplyAs(t.Context(), growth, v1alpha1.RemovalFieldManager, true); err != nil {
		t.Fatal(err)
	}
}

func planned(t *rapid.T, s server, known knowledge, set *render.Set) *plan.Plan {
	policy := plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, NewRevision: true}
	p, err := plan.Make(t.Context(), set, plan.Live{Objects: s.Objects()}, policy, known)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *rapid.T, s server, p *plan.Plan) {
	if err := apply.Apply(t.Context(), s, p.Changes, apply.Options{Uncached: s, Arrivals: &apply.Arrivals{}, Owner: owner, Concurrency: 2}).Err(); err != nil {
		t.Fatal(err)
	}
}

// unchangedMeansNoWrite: an object without a Change is one that an apply would
// not write, and one with a Change is one that it would.
func unchangedMeansNoWrite(s server, known knowledge) func(*rapid.T) {
	return func(t *rapid.T) {
		s.Reset()
		before := git(t, known, "before")
		write(t, s, planned(t, s, known, before))
		others(t, s)
		set := before
		if rapid.Bool().Draw(t, "a new commit") {
			set = git(t, known, "after")
		}
		changes := map[render.Ref]plan.Change{}
		for _, change := range planned(t, s, known, set).Changes {
			changes[change.Ref] = change
		}
		for _, object := range set.Objects {
			live, change := s.Objects()[object.Ref], changes[object.Ref]
			if live == nil || change.Action == plan.Conflict || change.Takeover || change.Action == plan.TakeBack {
				continue
			}
			if err := s.ApplyAs(t.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
				t.Fatal(err)
			}
			after := s.Objects()[object.Ref]
			moved := live.GetResourceVersion() != after.GetResourceVersion()
			if writes := change.Action.Writes(); writes != moved {
				t.Fatalf("%s: planned a write: %t (%s), written: %t:\n%s", object.Ref, writes, change.Message, moved, cmp.Diff(live.Object, after.Object))
			}
		}
	}
}

// oneApplySettles: what a Plan says is done by one Apply, and then everything
// is as Git says.
func oneApplySettles(s server, known knowledge) func(*rapid.T) {
	return func(t *rapid.T) {
		s.Reset()
		write(t, s, planned(t, s, known, git(t, known, "before")))
		webhook := others(t, s)
		set := git(t, known, "after")
		write(t, s, planned(t, s, known, set))
		conflicts := false
		for _, change := range planned(t, s, known, set).Changes {
			if change.Action != plan.Conflict {
				t.Fatalf("still to do: %s %s: %s", change.Action, change.Ref, change.Message)
			}
			conflicts = true
		}
		if webhook || conflicts {
			return
		}
		for _, object := range set.Objects {
			live := s.Objects()[object.Ref]
			if diff := cmp.Diff(bare(object.Defaulted.Object["spec"]), bare(live.Object["spec"])); diff != "" {
				t.Fatalf("%s is not as Git says (-git +live):\n%s", object.Ref, diff)
			}
		}
	}
}

// bare leaves out empty maps: one stays where its last field was taken away.
func bare(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	rest := map[string]any{}
	for key, field := range fields {
		if field = bare(field); field != nil {
			rest[key] = field
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

func TestProperties(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]server{"in memory": applytest.New(t)}
	if *kubeconfig != "" {
		servers["API server"] = connect(t, *kubeconfig)
	}
	for name, s := range servers {
		t.Run(fmt.Sprintf("%s: unchanged means no write", name), rapid.MakeCheck(unchangedMeansNoWrite(s, known)))
		t.Run(fmt.Sprintf("%s: one apply settles", name), rapid.MakeCheck(oneApplySettles(s, known)))
	}
}

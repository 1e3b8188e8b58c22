package plan_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

var (
	realKubeconfig = flag.String("karpenter", "", "kubeconfig of an empty cluster with Karpenter: compare hashes with its annotations")
	realClassHash  = flag.String("class-hash", "", "the hash version of EC2NodeClasses that this Karpenter uses")
)

// hashedBy is how long the controller may take to annotate a definition, on a busy machine.
const hashedBy = 60 * time.Second

// TestHashesEqualKarpenter: for random EC2NodeClasses and NodePools of the whole schema, the hash that plumbline
// computes of the definition in Git is the one that the real controller annotates, so that a Plan names the exact
// nodes. If plumbline does not compute the controller's hash version, the Plan gives that as the reason.
func TestHashesEqualKarpenter(t *testing.T) {
	if *realKubeconfig == "" {
		t.Skip("needs a cluster with Karpenter: go test ./property in tests starts one")
	}
	c := newRealCluster(t)
	for _, kind := range []string{render.EC2NodeClass, render.NodePool} {
		t.Run(kind, func(t *testing.T) {
			s := surfaceOf(c.crds[kind])
			objects, refused := 0, ""
			property.Check(t, func(t *rapid.T) {
				object := &unstructured.Unstructured{Object: map[string]any{"spec": s.draw(t)}}
				object.SetGroupVersionKind(c.kinds[kind].GVK)
				object.SetName(fmt.Sprintf("drawn-%d", c.count))
				if errs := c.validator.Validate(t.Context(), object); len(errs) > 0 {
					refused = errs.ToAggregate().Error()
					t.Skip(refused)
				}
				c.count++
				objects++
				c.compare(t, object)
				s.count("spec", s.schema, object.Object["spec"])
			})
			missed, of := s.missed()
			if len(missed) > 0 {
				t.Errorf("%d of %d fields were never drawn: %s; the newest refused object: %s", len(missed), of, strings.Join(missed, ", "), refused)
			}
			t.Logf("%d objects, %d fields", objects, of)
		})
	}
}

// realCluster is a cluster in which Karpenter's controller runs.
type realCluster struct {
	client    client.Client
	validator *schema.Validator
	kinds     map[string]render.Kind
	crds      map[string]*apiextensionsv1.CustomResourceDefinition
	bundle    string
	// count is how many objects were created.
	count int
}

func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", *realKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c := &realCluster{
		bundle: plan.CABundle(config.CAData), kinds: map[string]render.Kind{}, crds: map[string]*apiextensionsv1.CustomResourceDefinition{},
	}
	if c.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range []string{render.EC2NodeClass, render.NodePool} {
		kind, _ := render.KindOf(name)
		served := &unstructured.Unstructured{}
		served.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := c.client.Get(t.Context(), client.ObjectKey{Name: kind.CRD}, served); err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(served.Object, crd); err != nil {
			t.Fatal(err)
		}
		c.kinds[name], c.crds[name], all = kind, crd, append(all, crd.DeepCopy())
	}
	if c.validator, err = schema.New(all); err != nil {
		t.Fatal(err)
	}
	return c
}

// compare applies an object as the daemon does, and compares its hash with Karpenter's annotation.
func (c *realCluster) compare(t *rapid.T, object *unstructured.Unstructured) {
	git := rendered(c.validator, object)
	applied := client.ApplyConfigurationFromUnstructured(plan.Desired(git, owner))
	if err := c.client.Apply(t.Context(), applied, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		t.Fatalf("%s: %v", git.Ref, err)
	}
	live := c.hashed(t, git.Ref)
	annotation, noted := awsv1.AnnotationEC2NodeClassHash, plan.NotedOfClass(live.GetAnnotations())
	of := func(o *unstructured.Unstructured) plan.Hash { return plan.ClassHash(o, *realClassHash, c.bundle) }
	if git.Ref.Kind == render.NodePool {
		annotation, noted, of = karpv1.NodePoolHashAnnotationKey, plan.NotedOfPool(live.GetAnnotations()), plan.PoolHash
	}
	will, want := c.predicted(t, git, live, annotation, of), "Replace [before] exact NodePoolDrifted"
	if git.Ref.Kind == render.EC2NodeClass {
		if version, _, _ := strings.Cut(string(noted), " "); version != *realClassHash {
			t.Fatalf("%s: hash version %q, want %s", git.Ref, version, *realClassHash)
		}
		want = "Replace [before] exact NodeClassDrift"
		if !slices.Contains(plan.ClassHashes(), *realClassHash) {
			want = fmt.Sprintf("Replace [before after] up to: this Karpenter uses hash version %s for EC2NodeClasses, and this plumbline computes %s",
				*realClassHash, strings.Join(plan.ClassHashes(), " and "))
			noted = "" // and it computes no hash of this version
		}
	}
	if fromGit, fromLive := of(plan.Desired(git, owner)), of(live); fromGit != noted || fromLive != noted {
		t.Fatalf("%s: Karpenter's annotation %s is %q; plumbline computes %q from Git's object and %q from the live one:\n%v",
			git.Ref, annotation, noted, fromGit, fromLive, live.Object["spec"])
	}
	if will != want {
		t.Fatalf("%s: a change of the hash has the effect %q, want %q", git.Ref, will, want)
	}
}

// rendered returns an object as in Git.
func rendered(validator *schema.Validator, object *unstructured.Unstructured) render.Object {
	git := render.Object{Ref: render.RefOf(object), Desired: object, Defaulted: object.DeepCopy()}
	validator.Default(git.Defaulted)
	return git
}

// hashed waits until Karpenter has annotated its hash of an object.
func (c *realCluster) hashed(t *rapid.T, ref render.Ref) *unstructured.Unstructured {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(c.kinds[ref.Kind].GVK)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, hashedBy, true, func(ctx context.Context) (bool, error) {
		if err := c.client.Get(ctx, client.ObjectKey{Name: ref.Name}, live); err != nil {
			return false, err
		}
		return cmp.Or(plan.NotedOfPool(live.GetAnnotations()), plan.NotedOfClass(live.GetAnnotations())) != "", nil
	})
	if err != nil {
		t.Fatalf("wait for Karpenter's hash of %s: %v; its annotations: %v", ref, err, live.GetAnnotations())
	}
	return live
}

// predicted returns what a Plan predicts if a commit changes a field that is hashed: for a node of the live object, and
// for one that was launched after the commit.
func (c *realCluster) predicted(
	t *rapid.T, git render.Object, live *unstructured.Unstructured, annotation string, of func(*unstructured.Unstructured) plan.Hash,
) string {
	desired, live := git.Desired.DeepCopy(), live.DeepCopy()
	path := []string{"spec", "userData"}
	claim := plan.NodeClaim{Name: "before", UID: "before", Pool: "pool", Class: git.Ref.Name, ProviderID: "aws:///a/i-1"}
	if git.Ref.Kind == render.NodePool {
		path = []string{"spec", "template", "metadata", "annotations", "changed"}
		claim.Pool, claim.Class = git.Ref.Name, "class"
		// What else decides about its nodes is not hashed.
		replaceable(desired)
		replaceable(live)
	}
	claim.Hashes = plan.HashesOf(live.GetAnnotations())
	if err := unstructured.SetNestedField(desired.Object, "by a commit", path...); err != nil {
		t.Fatal(err)
	}
	changed, later := rendered(c.validator, desired), claim
	later.Name, later.UID = "after", "after"
	notes := maps.Clone(live.GetAnnotations())
	if _, sum, computed := strings.Cut(string(of(plan.Desired(changed, owner))), " "); computed {
		notes[annotation] = sum
	}
	later.Hashes = plan.HashesOf(notes)
	set := &render.Set{Revision: "main@sha1:new", Objects: []render.Object{changed}}
	objects := map[render.Ref]*unstructured.Unstructured{git.Ref: live}
	if name, found, _ := unstructured.NestedString(desired.Object, "spec", "template", "spec", "nodeClassRef", "name"); found {
		class := &unstructured.Unstructured{}
		class.SetGroupVersionKind(c.kinds[render.EC2NodeClass].GVK)
		class.SetName(name)
		objects[render.RefOf(class)] = class // without it, the Plan refuses the NodePool
	}
	state := plan.Live{Objects: plan.NewObjects(objects), NodeClaims: []plan.NodeClaim{claim, later}}
	policy := plan.Policy{
		Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, Drift: v1alpha1.DriftCorrect, NewRevision: true, CABundle: c.bundle,
	}
	made, err := plan.Make(t.Context(), set, state, policy, c.validator)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Changes) != 1 {
		t.Fatalf("%s: %d changes: %v", git.Ref, len(made.Changes), script(made))
	}
	return nodesOf(&made.Changes[0])
}

// replaceable makes a NodePool dynamic, with budgets that always allow replacements.
func replaceable(pool *unstructured.Unstructured) {
	spec, _ := pool.Object["spec"].(map[string]any)
	delete(spec, "replicas")
	spec["disruption"] = map[string]any{
		"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": []any{map[string]any{"nodes": "100%"}},
	}
}

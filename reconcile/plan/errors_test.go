package plan_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func TestAnEmptySetIsNoPlan(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"))
	for name, set := range map[string]*render.Set{"none": nil, "empty": {}} {
		if p, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects())}, c.policy, c); err == nil {
			t.Errorf("%s: got a plan: %v", name, script(p))
		}
	}
}

func TestErrorsAreTyped(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("static", "default", "replicas: 3"))
	c.have(t, other, pool("theirs", "default"))
	err := c.plan(t, class("default"), pool("static", "default"), pool("theirs", "default"), pool("lost", "nowhere")).Err()
	var missing *plan.MissingClassError
	if !errors.As(err, &missing) || missing.Class != classRef("nowhere") {
		t.Errorf("no MissingClassError in %v", err)
	}
	var refused *plan.RefusedError
	if !errors.As(err, &refused) || !refused.Immutable {
		t.Errorf("no RefusedError in %v", err)
	}
	var conflict *plan.ConflictError
	if !errors.As(err, &conflict) || conflict.Owner != "plumbline-system/other" {
		t.Errorf("no ConflictError in %v", err)
	}
	want := `change of NodePool/static refused: a static NodePool (spec.replicas) cannot become dynamic (nodes/static.yaml:1): it needs a new name`
	if refused.Error() != want {
		t.Errorf("message is %q", refused.Error())
	}
	if err := c.plan(t, class("default")).Err(); err != nil {
		t.Errorf("nothing is wrong, and yet: %v", err)
	}
}

// TestTheSchemaIsAsked: a change that violates a transition rule of the CRDs is refused before it is tried. No release
// has a rule without a check of its own, but a chart may.
func TestTheSchemaIsAsked(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Spec.Names.Kind != render.NodePool {
			continue
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{Rule: "self.weight > oldSelf.weight", Message: "weight only grows"})
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	}
	known, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default", "weight: 9"), pool("fine", "default", "weight: 9"))
	set := c.set(t, class("default"), pool("general", "default", "weight: 8"), pool("fine", "default", "weight: 10"))
	p, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects())}, c.policy, known)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Update NodePool/fine Differs spec.weight:9→10", "Refuse NodePool/general Invalid spec.weight:9→8"}
	if diff := cmp.Diff(want, script(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestOfflineAMissingClassIsAWarning(t *testing.T) {
	c := newCluster(t)
	c.policy.Offline = true
	p := c.plan(t, pool("general", "elsewhere"))
	if diff := cmp.Diff([]string{"Create NodePool/general Missing"}, script(p)); diff != "" {
		t.Error(diff)
	}
	if len(p.Warnings) != 1 || p.Err() != nil {
		t.Errorf("warnings %v, error %v", p.Warnings, p.Err())
	}
}

func TestACopyOfOursIsNoCandidate(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"))
	c.byHand(t, "kubectl-create", class("copy"))
	c.Edit(t, classRef("copy"), "kubectl-create", func(o *unstructured.Unstructured) { o.SetLabels(c.Object(classRef("default")).GetLabels()) })
	if diff := cmp.Diff([]string{}, script(c.plan(t, class("default")))); diff != "" {
		t.Error(diff)
	}
}

// TestAClassOfAnotherNodeSync: a NodePool waits for the class that another NodeSync contains or may contain, and the
// message names the reason.
func TestAClassOfAnotherNodeSync(t *testing.T) {
	theirs := func(change func(*plan.OtherSync)) []plan.OtherSync {
		others := has(classRef("theirs"))
		change(&others[0])
		return others
	}
	for name, test := range map[string]struct {
		other []plan.OtherSync
		waits string // empty: the change is refused
	}{
		"the other has it":           {has(classRef("theirs")), ": waiting for NodeSync plumbline-system/other to apply it"},
		"the other is suspended":     {theirs(func(o *plan.OtherSync) { o.Suspended = true }), ": waiting for NodeSync plumbline-system/other, which has the object in Git but is suspended: resume it"},
		"the other cannot apply it":  {theirs(func(o *plan.OtherSync) { o.Failure = "Conflict" }), ": waiting for NodeSync plumbline-system/other, which has the object in Git but fails (Conflict): correct it"},
		"the other is not heard yet": {unheard(""), ", which is neither in this NodeSync's Git nor in the cluster: waiting for NodeSync plumbline-system/other to render its newest revision"},
		"the other fails":            {unheard("SourceFailed"), ", which is neither in this NodeSync's Git nor in the cluster: waiting for NodeSync plumbline-system/other, which fails (SourceFailed): correct it"},
		"the other has another":      {has(classRef("default")), ""},
		"there is none":              {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.OtherSyncs = test.other
			since := time.Unix(1_800_000_000, 0)
			for i := range c.policy.OtherSyncs {
				c.policy.OtherSyncs[i].Since = since
			}
			p := c.plan(t, class("default"), pool("a", "theirs"))
			var missing *plan.MissingClassError
			if errors.As(p.Err(), &missing) != (test.waits == "") {
				t.Fatalf("error %v", p.Err())
			}
			for _, change := range p.Changes {
				want := "NodePool/a references EC2NodeClass/theirs" + test.waits
				if change.Ref == poolRef("a") && test.waits != "" && (change.Message != want || change.WaitsFor != "NodeSync/other" || !change.WaitsSince.Equal(since)) {
					t.Errorf("%+v", change)
				}
			}
		})
	}
}

// TestConflictNamesThreeWays: hand the object over, leave it to the other tool, or, for charts, set management:
// External.
func TestConflictNamesThreeWays(t *testing.T) {
	const rest = ", or remove the object from Git and keep it in %s; set management: External if Karpenter's charts come from %[1]s, too"
	byHand := "stop it from applying this object and remove its entry from metadata.managedFields"
	for name, c := range map[string]struct {
		tools []string
		keeps string
		way   string
	}{
		"Flux":          {[]string{"Flux"}, "Flux", "hand it over with plumbline adopt --from flux NodePool/a"},
		"Argo CD":       {[]string{"Argo CD"}, "Argo CD", "hand it over with plumbline adopt --from argocd NodePool/a"},
		"another":       {[]string{"Terraform"}, "Terraform", byHand},
		"more than one": {[]string{"Flux", "Helm"}, "Flux and Helm", byHand},
	} {
		err := &plan.ConflictError{Ref: render.Ref{Kind: "NodePool", Name: "a"}, Tools: c.tools, Fields: []string{"spec.limits.cpu"}}
		want := "NodePool/a: fields managed by " + c.keeps + ": spec.limits.cpu: " + c.way + fmt.Sprintf(rest, c.keeps)
		if got := err.Error(); got != want {
			t.Errorf("%s: it says %q, want %q", name, got, want)
		}
	}
}

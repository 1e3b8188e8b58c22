package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// copyOf returns a class of the Set under the name of a copy.
func copyOf(of, name string) string {
	return strings.Replace(class(name), "metadata: {name: "+name+"}", "metadata: {name: "+name+", annotations: {plumbline.dev/rescues: "+of+"}}", 1)
}

// rescued returns the Set of definitions in Git as a reconcile plans it.
func (c *drawnCluster) rescued(t *testing.T, r *plan.Rescuer, git ...string) *render.Set {
	t.Helper()
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	return r.Rescued(c.set(t, git...), live, owner)
}

func TestRescue(t *testing.T) {
	const long = "a-name-of-an-ec2nodeclass-which-is-exactly-sixty-characters-ok"
	claim := func(class string) plan.NodeClaim { return plan.NodeClaim{Name: "a-1", Pool: "a", Class: class} }
	git := []string{class("default"), pool("a", "default"), pool("b", "default")}
	tests := map[string]struct {
		live, theirs, git []string
		deletes           []string
		claims            []plan.NodeClaim
		want              map[string]string // the class that each NodePool of the Set references
		made              []string          // the classes of the Set
	}{
		"deleted while nodes are on it": {
			live: git, git: git, deletes: []string{"default"}, claims: []plan.NodeClaim{claim("default")},
			want: map[string]string{"a": "default-rescued", "b": "default-rescued"}, made: []string{"default", "default-rescued"},
		},
		"no node is on it: it goes at once": {
			live: git, git: git, deletes: []string{"default"},
			want: map[string]string{"a": "default", "b": "default"}, made: []string{"default"},
		},
		"it is not deleted": {
			live: git, git: git, claims: []plan.NodeClaim{claim("default")},
			want: map[string]string{"a": "default", "b": "default"}, made: []string{"default"},
		},
		"the copy stays when the class is there again": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default-rescued"), pool("b", "default-rescued")}, git: git, claims: []plan.NodeClaim{claim("default-rescued")},
			want: map[string]string{"a": "default-rescued", "b": "default-rescued"}, made: []string{"default", "default-rescued"},
		},
		"a copy that nothing names ends": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default")}, git: git, claims: []plan.NodeClaim{claim("default")},
			want: map[string]string{"a": "default", "b": "default"}, made: []string{"default"},
		},
		"Git names another class": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default-rescued")}, git: []string{class("default"), class("x"), pool("a", "x")}, claims: []plan.NodeClaim{claim("default-rescued")},
			want: map[string]string{"a": "x"}, made: []string{"default", "x"},
		},
		"Git has the copy, and names it": {
			live: []string{copyOf("default", "default-rescued"), pool("a", "default-rescued")}, git: []string{class("default-rescued"), pool("a", "default-rescued")}, claims: []plan.NodeClaim{claim("default-rescued")},
			want: map[string]string{"a": "default-rescued"}, made: []string{"default-rescued"},
		},
		"Git has the copy, and does not name it yet": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default-rescued")}, git: []string{class("default"), class("default-rescued"), pool("a", "default")}, claims: []plan.NodeClaim{claim("default-rescued")},
			want: map[string]string{"a": "default-rescued"}, made: []string{"default", "default-rescued"},
		},
		"the copy was deleted, too, and the class is there again": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default-rescued")}, git: []string{class("default"), pool("a", "default")}, claims: []plan.NodeClaim{claim("default-rescued")}, deletes: []string{"default-rescued"},
			want: map[string]string{"a": "default"}, made: []string{"default"},
		},
		"both are deleted": {
			live: []string{class("default"), copyOf("default", "default-rescued"), pool("a", "default-rescued")}, git: []string{class("default"), pool("a", "default")}, claims: []plan.NodeClaim{claim("default"), claim("default-rescued")}, deletes: []string{"default", "default-rescued"},
			want: map[string]string{"a": "default-rescued-2"}, made: []string{"default", "default-rescued-2"},
		},
		"the name is taken": {
			live: []string{class("default"), pool("a", "default")}, theirs: []string{class("default-rescued")}, git: []string{class("default"), pool("a", "default")}, claims: []plan.NodeClaim{claim("default")}, deletes: []string{"default"},
			want: map[string]string{"a": "default-rescued-2"}, made: []string{"default", "default-rescued-2"},
		},
		"another NodeSync's copy": {
			live: []string{class("default"), pool("a", "default")}, theirs: []string{copyOf("default", "default-rescued"), pool("c", "default-rescued")}, git: []string{class("default"), pool("a", "default")},
			want: map[string]string{"a": "default"}, made: []string{"default"},
		},
		"the class is not of this Git": {
			live: []string{pool("a", "default")}, theirs: []string{class("default")}, git: []string{pool("a", "default")}, claims: []plan.NodeClaim{claim("default")}, deletes: []string{"default"},
			want: map[string]string{"a": "default"},
		},
		"a name that would be too long for a label of nodes": {
			live: []string{class(long), pool("a", long)}, git: []string{class(long), pool("a", long)}, claims: []plan.NodeClaim{claim(long)}, deletes: []string{long},
			want: map[string]string{"a": "a-name-of-an-ec2nodeclass-which-is-exactly-sixty-charac-rescued"}, made: []string{long, "a-name-of-an-ec2nodeclass-which-is-exactly-sixty-charac-rescued"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, tt.live...)
			c.have(t, other, tt.theirs...)
			for _, name := range tt.deletes {
				c.Terminate(classRef(name))
			}
			c.live.NodeClaims = tt.claims
			set := c.rescued(t, &plan.Rescuer{}, tt.git...)
			names, classes := map[string]string{}, []string(nil)
			for _, o := range set.Objects {
				switch named, ok := render.Reference(o.Ref, o.Defaulted); {
				case ok:
					names[o.Ref.Name] = named.Name
				default:
					classes = append(classes, o.Ref.Name)
				}
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("NodePools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.made, classes, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestACopyIsTheClass as it is in Git now, and the objects of an unchanged Set stay identical.
func TestACopyIsTheClass(t *testing.T) {
	c := newCluster(t)
	git := []string{class("default"), class("second"), pool("a", "default"), pool("b", "second")}
	c.have(t, owner, git...)
	c.Terminate(classRef("default"))
	c.live.NodeClaims = []plan.NodeClaim{{Name: "a-1", Pool: "a", Class: "default"}}
	git[0] = class("default", "tags: {team: a}")
	set := c.set(t, git...)
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	r := &plan.Rescuer{}
	first := r.Rescued(set, live, owner)
	made := first.Objects[1]
	if made.Ref != classRef("default-rescued") || made.Desired.GetAnnotations()[v1alpha1.RescuesAnnotation] != "default" {
		t.Fatalf("%s with annotations %v", made.Ref, made.Desired.GetAnnotations())
	}
	if diff := cmp.Diff(set.Objects[0].Defaulted.Object["spec"], made.Defaulted.Object["spec"]); diff != "" {
		t.Errorf("its spec:\n%s", diff)
	}
	for _, o := range set.Objects {
		if named, ok := render.Reference(o.Ref, o.Desired); ok && named.Name == "default-rescued" {
			t.Error("the Set of Git was changed itself")
		}
	}
	again := *set
	second := r.Rescued(&again, live, owner)
	if &first.Objects[0] != &second.Objects[0] {
		t.Error("unchanged objects were recreated, and each would be compared again")
	}
	if again.Objects = append([]render.Object(nil), set.Objects...); &r.Rescued(&again, live, owner).Objects[0] == &first.Objects[0] {
		t.Error("another Set was taken for the last one")
	}
}

// TestARescueIsPlanned: its replacements are checked like others, and drift that is only reported does not stop it.
func TestARescueIsPlanned(t *testing.T) {
	tests := map[string]struct {
		policy func(*plan.Policy)
		want   []string
	}{
		"goes ahead": {
			func(*plan.Policy) {},
			[]string{
				"Wait EC2NodeClass/default Terminating on EC2NodeClass/default", "Create EC2NodeClass/default-rescued Missing",
				"Update NodePool/a Differs spec.template.spec.nodeClassRef.name:default→default-rescued replaces 2",
			},
		},
		"drift is reported only": {
			func(p *plan.Policy) { p.Drift, p.NewRevision = v1alpha1.DriftReport, false },
			[]string{
				"Wait EC2NodeClass/default Terminating on EC2NodeClass/default", "Create EC2NodeClass/default-rescued Missing",
				"Update NodePool/a Differs spec.template.spec.nodeClassRef.name:default→default-rescued replaces 2",
			},
		},
		"more nodes than the guard allows": {
			func(p *plan.Policy) { p.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(1)) },
			[]string{
				"Wait EC2NodeClass/default Terminating on EC2NodeClass/default", "Create EC2NodeClass/default-rescued Missing",
				"Hold NodePool/a MaxDisruptedNodes spec.template.spec.nodeClassRef.name:default→default-rescued replaces 2",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			tt.policy(&c.policy)
			git := []string{class("default"), pool("a", "default")}
			c.have(t, owner, git...)
			c.Terminate(classRef("default"))
			c.live.NodeClaims = []plan.NodeClaim{{Name: "a-1", UID: "1", Pool: "a", Class: "default"}, {Name: "a-2", UID: "2", Pool: "a", Class: "default"}}
			live := c.live
			live.Objects = plan.NewObjects(c.Objects())
			p, err := plan.Make(t.Context(), c.rescued(t, &plan.Rescuer{}, git...), live, c.policy, c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, script(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(p.InUse) > 0 {
				t.Errorf("a person is asked for what plumbline does: %s", p.InUse[0].Message())
			}
			if words := p.Changes[0].Message; !strings.Contains(words, "NodePool/a references EC2NodeClass/default-rescued instead") {
				t.Error(words)
			}
		})
	}
}

func TestRescueWords(t *testing.T) {
	r := render.Rescue{
		Class: classRef("default"), By: classRef("default-rescued"), Pools: []render.Ref{poolRef("a"), poolRef("b")},
		Origins: []render.Origin{{File: "nodes/default.yaml", Line: 1}, {File: "nodes/a.yaml", Line: 1}, {File: "nodes/b.yaml", Line: 7}},
	}
	const want = "EC2NodeClass/default was deleted while nodes use it: plumbline changes NodePool/a and NodePool/b to reference EC2NodeClass/default-rescued, a copy of it, until Git sets another class for them. " +
		"In one commit, rename the class to default-rescued (nodes/default.yaml:1), and set spec.template.spec.nodeClassRef.name to that in nodes/a.yaml:1, nodes/b.yaml:7"
	if diff := cmp.Diff(want, plan.RescueWords(r)); diff != "" {
		t.Error(diff)
	}
}

// TestHowToMoveOffADeletedClass: the message lists the files, if the class is in Git.
func TestHowToMoveOffADeletedClass(t *testing.T) {
	c := newCluster(t)
	git := []string{class("default"), pool("a", "default")}
	c.have(t, owner, git...)
	c.Edit(t, classRef("default"), "kubectl", func(*unstructured.Unstructured) {})
	c.Terminate(classRef("default"))
	c.live.NodeClaims = []plan.NodeClaim{{Name: "a-1", Pool: "a", Class: "default"}}
	p := c.plan(t, git...)
	if len(p.InUse) != 1 {
		t.Fatalf("%v", script(p))
	}
	for _, words := range []string{
		"in use by NodePool/a, 1 NodeClaim. In one commit, copy the class to default-rescued (nodes/default.yaml:1), and set spec.template.spec.nodeClassRef.name to that in nodes/a.yaml:1",
		"plumbline why EC2NodeClass/default", "spec.removal.rescue",
	} {
		if got := p.InUse[0].Message(); !strings.Contains(got, words) {
			t.Errorf("lacks %q: %s", words, got)
		}
	}
}

// TestAClassInUseIsNamed with all of its users, of any owner, as long as a NodePool references it.
func TestAClassInUseIsNamed(t *testing.T) {
	claims := []plan.NodeClaim{{Name: "a-1", Pool: "a", Class: "default"}, {Name: "a-2", Pool: "a", Class: "default"}, {Name: "b-1", Pool: "b", Class: "second"}}
	tests := map[string]struct {
		ours, theirs, git []string
		deletes           string
		want              []plan.InUse
	}{
		"in use by two pools of the Set": {
			ours: []string{class("default"), pool("a", "default"), pool("b", "default")}, git: []string{class("default"), pool("a", "default"), pool("b", "default")}, deletes: "default",
			want: []plan.InUse{{Class: classRef("default"), Ours: []string{"a", "b"}, NodeClaims: 2}},
		},
		"in use by another NodeSync's pool": {
			ours: []string{class("default"), pool("a", "second"), class("second")}, theirs: []string{pool("theirs", "default")}, git: []string{class("default"), class("second"), pool("a", "second")}, deletes: "default",
			want: []plan.InUse{{Class: classRef("default"), Others: []string{"theirs"}, NodeClaims: 2}},
		},
		"another NodeSync's class, which a pool of the Set names": {
			ours: []string{pool("a", "default")}, theirs: []string{class("default")}, git: []string{pool("a", "default")}, deletes: "default",
			want: []plan.InUse{{Class: classRef("default"), Ours: []string{"a"}, NodeClaims: 2}},
		},
		"a pool that is new in Git names it": {
			ours: []string{class("default")}, git: []string{class("default"), pool("a", "default")}, deletes: "default",
			want: []plan.InUse{{Class: classRef("default"), Ours: []string{"a"}, NodeClaims: 2}},
		},
		"only nodes are left": {
			ours: []string{class("default"), class("second"), pool("a", "second")}, git: []string{class("default"), class("second"), pool("a", "second")}, deletes: "default",
		},
		"nobody uses it": {ours: []string{class("default")}, git: []string{class("default"), class("second")}, deletes: "default"},
		"it was removed from Git, but no pool of Git names it": {
			ours: []string{class("default"), class("second"), pool("a", "second")}, theirs: []string{pool("theirs", "default")}, git: []string{class("second"), pool("a", "second")}, deletes: "default",
		},
		"it is not deleted": {ours: []string{class("default"), pool("a", "default")}, git: []string{class("default"), pool("a", "default")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			for _, object := range tt.ours {
				c.have(t, owner, object)
			}
			for _, object := range tt.theirs {
				c.have(t, other, object)
			}
			if tt.deletes != "" {
				c.Terminate(classRef(tt.deletes))
			}
			c.live.NodeClaims = claims
			p := c.plan(t, tt.git...)
			if diff := cmp.Diff(tt.want, p.InUse, cmpopts.IgnoreFields(plan.InUse{}, "Since", "Commit")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, u := range p.InUse {
				if u.Since.IsZero() {
					t.Error("it is not said since when")
				}
			}
		})
	}
}

func TestInUseNamesAFew(t *testing.T) {
	u := plan.InUse{Class: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Ours: []string{"a", "b", "c", "d"}, Others: []string{"x", "y", "z"}, NodeClaims: 40}
	for _, words := range []string{
		"EC2NodeClass/default is terminating, which cannot be undone", "NodePool/d, NodePool/x (not of this NodeSync), 2 more NodePools, 40 NodeClaims",
		"nodeClassRef.name", "In one commit",
	} {
		if !strings.Contains(u.Message(), words) {
			t.Errorf("lacks %q: %s", words, u.Message())
		}
	}
	if got, want := u.Brief(), "EC2NodeClass/default is terminating but in use by NodePool/a and 6 more: add a class under another name and set nodeClassRef to it"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

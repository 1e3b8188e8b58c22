package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAClassInUseIsNamed with everyone who uses it, whoever owns it, as long as a
// NodePool does.
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
		"it has left Git, and no pool of Git names it": {
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
		"EC2NodeClass/default is being deleted, which cannot be taken back", "NodePool/d, NodePool/x (not of this NodeSync), 2 more NodePools, 40 NodeClaims",
		"nodeClassRef.name", "in one commit",
	} {
		if !strings.Contains(u.Message(), words) {
			t.Errorf("lacks %q: %s", words, u.Message())
		}
	}
	if got, want := u.Brief(), "EC2NodeClass/default is being deleted and in use by NodePool/a and 6 more: add a class under another name and point nodeClassRef at it"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
)

func TestStagesKeepSince(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	list := func(at time.Time, before []v1alpha1.StageStatus, controller Stage) []v1alpha1.StageStatus {
		controller.Name = render.StageController
		s := &Step{Began: at}
		s.Stages = []Stage{{Name: render.StageCRDs, Ready: true}, controller}
		return s.listStages(before)
	}
	before := list(early, nil, Stage{Message: "a"})
	for _, stage := range list(late, before, Stage{Message: "b"}) {
		if !stage.Since.Time.Equal(early) {
			t.Errorf("%s is %s since %s: only its words have changed", stage.Name, stage.State, stage.Since)
		}
	}
	after := list(late, before, Stage{Ready: true})
	for i, want := range []time.Time{early, late} {
		if !after[i].Since.Time.Equal(want) {
			t.Errorf("%s since %s, want %s", after[i].Name, after[i].Since, want)
		}
	}
}

// TestStagesOfABrokenCommit shows that the stages stay if nothing was rendered.
func TestStagesOfABrokenCommit(t *testing.T) {
	before := []v1alpha1.StageStatus{{Name: "CRDs", State: v1alpha1.StageDone}}
	if diff := cmp.Diff(before, (&Step{}).listStages(before)); diff != "" {
		t.Error(diff)
	}
}

func setOf(refs ...render.Ref) *render.Set {
	set := &render.Set{}
	for _, ref := range refs {
		set.Objects = append(set.Objects, render.Object{Ref: ref})
	}
	return set
}

// TestStages shows how far each has come; the message is that of the first definition that is not Ready.
func TestStages(t *testing.T) {
	class, general, batch := render.Ref{Kind: render.EC2NodeClass, Name: "default"}, render.Ref{Kind: render.NodePool, Name: "general"}, render.Ref{Kind: render.NodePool, Name: "batch"}
	yes := cluster.Readiness{Ready: true}
	cases := map[string]struct {
		crds, controller cluster.Readiness
		definitions      cluster.ByRef
		want             []string
	}{
		"nothing yet": {
			crds: cluster.Readiness{Message: "crd x is not there yet"},
			want: []string{"CRDs Waiting crd x is not there yet", "Controller Waiting ", "NodeClasses Waiting EC2NodeClass/default is not applied yet", "NodePools Waiting NodePool/general is not applied yet"},
		},
		"all but one pool": {
			crds: yes, controller: yes,
			definitions: cluster.ByRef{class: yes, general: yes, batch: {Message: "NodePool/batch is not Ready"}},
			want:        []string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Waiting NodePool/batch is not Ready"},
		},
		"all": {
			crds: yes, controller: yes,
			definitions: cluster.ByRef{class: yes, general: yes, batch: yes},
			want:        []string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Done "},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Stages(setOf(class, general, batch), c.crds, c.controller, c.definitions) {
				state := "Waiting"
				if s.Ready {
					state = "Done"
				}
				got = append(got, string(s.Name)+" "+state+" "+s.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHeldRemovalsDoNotHideTheCharts shows that the message has everything in a commit that a person has to act on, the
// refusal of the charts first.
func TestHeldRemovalsDoNotHideTheCharts(t *testing.T) {
	contradiction := &contradiction.Error{What: "values.settings.clusterName", Given: "b", Field: "cluster.name", Want: "a", Why: "both cannot hold"}
	stalledSince := metav1.NewTime(time.Unix(0, 0))
	held := v1alpha1.Removal{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalHeld, Message: "2 NodePools leave, 1 may"}
	stalled := v1alpha1.Removal{Kind: render.NodePool, Name: "old", Phase: v1alpha1.RemovalDraining, Message: "PDB web/web", Stalled: &stalledSince}
	const heldWords = "held: removal of NodePool/old: 2 NodePools leave, 1 may"
	cases := map[string]struct {
		found   Found
		removal v1alpha1.Removal
		reason  string
		// words are in the message, in this order, and brief in the commit status.
		words, brief []string
	}{
		"refused": {
			Found{Unpulled: contradiction},
			held, v1alpha1.ReasonRefused,
			[]string{"settings.clusterName", "the charts stay as they are installed", heldWords},
			[]string{"held: removal of NodePool/old; ", "settings.clusterName"},
		},
		"refused by a gate": {
			Found{NotUpgraded: &release.NoRevisionError{Release: "karpenter", Revision: 3}},
			held, v1alpha1.ReasonUpgradeFailed,
			[]string{"revision 3", heldWords},
			[]string{"held: removal of NodePool/old; ", "revision 3"},
		},
		"not corrected": {
			Found{Unkept: contradiction},
			held, v1alpha1.ReasonRefused,
			[]string{"settings.clusterName", "are left unchanged", heldWords},
			[]string{"held: removal of NodePool/old; ", "settings.clusterName"},
		},
		"not pulled yet": {
			Found{Unpulled: &charts.UnreachableError{Chart: "karpenter", Err: errors.New("no route")}},
			held, v1alpha1.ReasonHeld,
			[]string{"no route", heldWords},
			[]string{"held: removal of NodePool/old; ", "no route"},
		},
		"refused, a removal stalled": {
			Found{Unpulled: contradiction},
			stalled, v1alpha1.ReasonRefused,
			[]string{"settings.clusterName", "removal of NodePool/old stalled: PDB web/web"},
			[]string{"NodePool/old: removal stalled; ", "settings.clusterName"},
		},
		"a change that failed": {
			Found{Unwritten: errors.New("odd")},
			held, v1alpha1.ReasonHeld,
			[]string{"odd", heldWords},
			[]string{"held: removal of NodePool/old; odd"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Removals: []v1alpha1.Removal{c.removal}}}
			s := &Step{Sync: sync, Before: sync, Found: c.found}
			v := s.Verdict()
			if v.Class != Stuck || v.Reason != c.reason {
				t.Errorf("verdict %v, reason %s, want %s", v.Class, v.Reason, c.reason)
			}
			inOrder(t, v.Message, c.words)
			inOrder(t, v.CommitText(), c.brief)
		})
	}
}

// inOrder looks for words in a text, each after the previous one.
func inOrder(t *testing.T, text string, words []string) {
	t.Helper()
	rest := text
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("lacks %q, or has it elsewhere: %s", w, text)
			return
		}
		rest = after
	}
}

// TestABriefNamesTheBudget shows this although a commit status has 140 characters, and a long message names the
// PodDisruptionBudget at its end.
func TestABriefNamesTheBudget(t *testing.T) {
	removals := []v1alpha1.Removal{{
		Kind: render.NodePool, Name: "batch", Phase: v1alpha1.RemovalDraining, Remaining: 2,
		Message: "node ip-10-0-0-7.eu-west-1.compute.internal (NodeClaim/batch-x1) waits for pod default/front-7d9f8b5c6-x2x4z, of which PodDisruptionBudget default/front allows no disruption" +
			" (healthy: 2 of 2, 2 needed); node ip-10-0-0-8.eu-west-1.compute.internal (NodeClaim/batch-x2) waits for Karpenter to terminate it",
	}}
	text := briefOfRemovals(removals, "").String()
	if !strings.HasPrefix(text, "removing NodePool/batch: waits for PodDisruptionBudget default/front, which allows no disruption") || !strings.HasSuffix(text, "(2 nodes left)") {
		t.Errorf("%d characters: %s", len([]rune(text)), text)
	}
}

package witness

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leaving records a removal of the pool.
func leaving(s *scene) {
	_ = unstructured.SetNestedSlice(s.told.Sync.Object, []any{map[string]any{"kind": "NodePool", "name": "general", "phase": "Draining"}}, "status", "removals")
}

// ending marks the node as being deleted.
func ending(s *scene) { s.fleet.Claims[0].SetDeletionTimestamp(&metav1.Time{Time: noon}) }

// braking adds the budget of a paused rollout to the pool.
func braking(f *Fleet) {
	set(&f.Pools[0], []any{map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}}, "spec", "disruption", "budgets")
}

// TestExcused: an untrue report is no lie if plumbline cannot know or report it yet, or refers to something else; want
// is part of the one lie that remains.
func TestExcused(t *testing.T) {
	const fails = "NodePool/general gets no nodes: why"
	with := func(s *scene, changes ...func(*scene)) *scene {
		for _, change := range changes {
			change(s)
		}
		return s
	}
	theirs := func(s *scene) { s.fleet.Pools[0].SetLabels(map[string]string{ownerLabel: "plumbline-system.other"}) }
	tests := map[string]struct {
		*scene
		want string
	}{
		"success, and nothing else is asked": {scene: sceneOf("Ready", "True", "Succeeded", "").says("", "success", "")},
		"a success that is none":             {sceneOf("Ready", "False", "Stalled", "").says("", "success", ""), "is a success of NodeSync prod, but Ready is False, Stalled"},
		"a success while the host is away":   {scene: sceneOf("Ready", "False", "SourceFailed", "").says("", "success", "")},
		"pending while Ready is False":       {scene: sceneOf("Ready", "False", "Stalled", "").says("", "pending", "")},
		"of another generation":              {scene: with(sceneOf("RolledOut", "True", "Succeeded", "").but(drifted), func(s *scene) { s.told.Now = false })},
		"the pool is another's":              {scene: with(sceneOf("RolledOut", "True", "Succeeded", "").but(drifted), theirs)},
		"the pool leaves":                    {scene: with(sceneOf("RolledOut", "True", "Succeeded", "").but(drifted), leaving)},
		"an older hash of another version": {scene: with(sceneOf("RolledOut", "True", "Succeeded", ""), func(s *scene) {
			set(&s.fleet.Pools[0], "2", "metadata", "annotations", "karpenter.sh/nodepool-hash")
			set(&s.fleet.Pools[0], "v4", "metadata", "annotations", "karpenter.sh/nodepool-hash-version")
		})},
		"a brake that cannot be written": {scene: sceneOf("RolledOut", "False", "RolloutBraked", "general cannot be stopped: why")},
		"a brake of another's pool":      {with(sceneOf("RolledOut", "False", "RolloutBraked", "").but(braking), theirs), "no NodePool has a budget of 0"},
		"budgets are the brake's": {scene: with(sceneOf("", "", "", "").says("applied", "success", "").but(braking), func(s *scene) {
			set(&s.told.Git.Objects[0], []any{map[string]any{"nodes": "10%"}}, "spec", "disruption", "budgets")
		})},
		"a launch is awaited":                   {scene: sceneOf("", "", "", "").but(func(f *Fleet) { is(&f.Claims[0], "Launched", "Unknown", "AwaitingReconciliation") })},
		"a refused launch is given up":          {scene: with(sceneOf("", "", "", "").but(func(f *Fleet) { is(&f.Claims[0], "Launched", "Unknown", "LaunchFailed") }), ending)},
		"the node that came never initialized":  {scene: sceneOf("LaunchFailing", "True", "", fails).but(launchedSince).but(func(f *Fleet) { is(&f.Claims[0], "Initialized", "False", "NodeNotReady") })},
		"the pool's nodes do not register":      {scene: sceneOf("LaunchFailing", "True", "", fails).but(launchedSince).but(func(f *Fleet) { is(&f.Pools[0], "NodeRegistrationHealthy", "False", "RegistrationFailed") })},
		"another pool gets no nodes":            {scene: sceneOf("LaunchFailing", "True", "", "NodePool/batch gets no nodes: why").but(launchedSince)},
		"applied, and edited as it leaves":      {scene: with(sceneOf("", "", "", "").says("applied", "success", "").but(edited), leaving)},
		"applied, and being deleted":            {with(sceneOf("", "", "", "").says("applied", "success", ""), func(s *scene) { s.fleet.Classes[0].SetDeletionTimestamp(&metav1.Time{Time: noon}) }), "EC2NodeClass/default is missing"},
		"nobody says that it is applied":        {scene: sceneOf("", "", "", "").says("applied", "pending", "").but(edited)},
		"no drift, and the node goes":           {scene: with(sceneOf("", "", "", "").says("drift", "success", "").but(drifted), ending)},
		"no drift, and the class is not there":  {scene: sceneOf("", "", "", "").says("drift", "success", "").but(drifted).but(func(f *Fleet) { f.Classes = nil })},
		"outdated by no commit, and it goes":    {scene: with(sceneOf("", "", "", "").says("drift", "failure", "nodes are outdated by no commit"), ending)},
		"its files cannot be read":              {scene: with(sceneOf("", "", "", "").says("drift", "failure", "1 object differs: …").says("applied", "success", "").but(edited), func(s *scene) { s.told.Git = nil })},
		"EC2 could not be asked":                {scene: with(sceneOf("", "", "", "").but(terminated), func(s *scene) { set(s.told.Sync, "why", "status", "instances", "failure") })},
		"its NodeClaim is being deleted":        {scene: with(sceneOf("", "", "", "").but(terminated), ending)},
		"more differ than are named":            {scene: sceneOf("InstanceDrift", "True", "", "i-0: it is stopped; and 3 more").but(terminated).but(func(f *Fleet) { f.Instances = append(f.Instances, Instance{ID: "i-0", State: "stopped"}) })},
		"its groups differ":                     {scene: sceneOf("InstanceDrift", "True", "", "i-1 of general: it lacks sg-1 of EC2NodeClass/default")},
		"its pool's tag differs, unsaid":        {sceneOf("", "", "", "").but(func(f *Fleet) { f.Instances[0].Tags["karpenter.sh/nodepool"] = "batch" }), `its tag karpenter.sh/nodepool is "batch"`},
		"it boots":                              {scene: sceneOf("", "", "", "").but(func(f *Fleet) { f.Instances[0].State = "pending" })},
		"EC2 has none, unsaid":                  {sceneOf("", "", "", "").but(func(f *Fleet) { f.Instances = nil }), "EC2 has no such instance"},
		"a stray that is ending":                {scene: sceneOf("", "", "", "").but(func(f *Fleet) { f.Claims, f.Instances[0].State = nil, "shutting-down" })},
		"a stray of a pool that leaves":         {scene: with(sceneOf("", "", "", "").but(func(f *Fleet) { f.Claims = nil }), leaving)},
		"a stray of another's pool":             {scene: with(sceneOf("", "", "", "").but(func(f *Fleet) { f.Claims = nil }), theirs)},
		"a NodeClaim without an instance":       {scene: sceneOf("", "", "", "").but(func(f *Fleet) { set(&f.Claims[0], "", "status", "providerID"); f.Instances = nil })},
		"an instance is named that is stopping": {scene: sceneOf("InstanceDrift", "True", "", "i-9: no NodeClaim has it").but(func(f *Fleet) { f.Instances = append(f.Instances, Instance{ID: "i-9", State: "stopping"}) })},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			got := test.told.Untrue(&test.fleet)
			if test.want == "" && len(got) == 0 || len(got) == 1 && test.want != "" && strings.Contains(got[0].Words, test.want) {
				return
			}
			t.Errorf("got %+v, want %q", got, test.want)
		})
	}
}

// TestItemsDiffer: a list in Git with other items than the live one, and a longer one.
func TestItemsDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		live []any
		want string
	}{
		"as in Git":  {live: []any{"a", "b"}},
		"another":    {[]any{"a", "c"}, "NodePool/general spec.zones[1] is c, and b in Git"},
		"one is new": {[]any{"a", "b", "c"}, "NodePool/general spec.zones has 3 items, and 2 in Git"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sceneOf("", "", "", "")
			set(&s.told.Git.Objects[0], []any{"a", "b"}, "spec", "zones")
			set(&s.fleet.Pools[0], c.live, "spec", "zones")
			words, _ := s.told.Git.unlike(&s.fleet, nil)
			if strings.Join(words, "; ") != c.want {
				t.Errorf("says %q, want %q", words, c.want)
			}
		})
	}
}

package witness

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// scene is a report, and the actual state.
type scene struct {
	told  Told
	fleet Fleet
}

// noon is the time of the scenes.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// sceneOf returns a scene with a NodeSync that reports something in a condition, and a pool and a node in the desired
// state.
func sceneOf(condition, status, reason, message string) *scene {
	object := func(text string) unstructured.Unstructured {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			panic(err)
		}
		return u
	}
	sync := object("{metadata: {name: prod}, spec: {}, status: {}}")
	if condition != "" {
		_ = unstructured.SetNestedSlice(sync.Object, []any{map[string]any{"type": condition, "status": status, "reason": reason, "message": message}}, "status", "conditions")
	}
	claim := object(`{kind: NodeClaim, metadata: {name: general-1, labels: {karpenter.sh/nodepool: general}, annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}},
		spec: {nodeClassRef: {name: default}}, status: {providerID: aws:///a/i-1, conditions: [{type: Launched, status: "True"}, {type: Initialized, status: "True"}]}}`)
	claim.SetCreationTimestamp(metav1.NewTime(noon.Add(-time.Hour)))
	pool := object(`{kind: NodePool, metadata: {name: general, annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}}, spec: {weight: 50, limits: {cpu: "1"}}}`)
	pool.SetLabels(map[string]string{ownerLabel: "plumbline-system.prod"})
	class := object(`{kind: EC2NodeClass, metadata: {name: default}, spec: {role: r-prod}}`)
	return &scene{
		told: Told{Sync: &sync, Owner: "plumbline-system.prod", Now: true, Commit: "c0ffee", Statuses: map[string]Status{}, Git: &Definitions{Objects: []unstructured.Unstructured{
			object(`{kind: NodePool, metadata: {name: general}, spec: {weight: 50, limits: {cpu: 1000m}}}`),
			object(`{kind: EC2NodeClass, metadata: {name: default}, spec: {role: "r-${CLUSTER_NAME}"}}`),
		}}},
		fleet: Fleet{
			Now: noon, Pools: []unstructured.Unstructured{pool}, Classes: []unstructured.Unstructured{class}, Claims: []unstructured.Unstructured{claim},
			Instances: []Instance{{ID: "i-1", State: "running", Tags: map[string]string{"karpenter.sh/nodepool": "general"}}},
			Compares:  time.Second, Said: map[string]time.Time{}, Ended: map[string]time.Time{},
		},
	}
}

// says adds a commit status.
func (s *scene) says(subject, state, description string) *scene {
	s.told.Statuses[subject] = Status{State: state, Description: description}
	return s
}

// but changes the actual state.
func (s *scene) but(change func(f *Fleet)) *scene {
	change(&s.fleet)
	return s
}

// set sets a field of an object.
func set(of *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(of.Object, value, path...)
}

// is sets a condition of an object.
func is(of *unstructured.Unstructured, condition, status, reason string) {
	_ = unstructured.SetNestedSlice(of.Object, []any{map[string]any{"type": condition, "status": status, "reason": reason}}, "status", "conditions")
}

func drifted(f *Fleet)    { is(&f.Claims[0], "Drifted", "True", "AMIDrift") }
func noClaims(f *Fleet)   { f.Claims, f.Instances = nil, nil }
func terminated(f *Fleet) { f.Instances[0].State = "terminated" }
func edited(f *Fleet)     { set(&f.Pools[0], int64(7), "spec", "weight") }

// written marks the pool as written after its node was created.
func written(f *Fleet) {
	drifted(f)
	now := metav1.NewTime(noon)
	f.Pools[0].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "plumbline", Time: &now}})
}

// launchedSince adds a node after its pool was reported to get none.
func launchedSince(f *Fleet) {
	f.Said["prod/general"] = noon.Add(-2 * time.Hour)
}

// TestUntrue finds each kind of untrue report, and none if all is true.
func TestUntrue(t *testing.T) {
	const driftingOut, fails = "nodes drift: n of general (NodeClaim general-1: AMIDrift)", "NodePool/general gets no nodes: why"
	tests := map[string]struct {
		*scene
		want string // a part of the one lie; empty: none
	}{
		"rolled out":              {scene: sceneOf("RolledOut", "True", "Succeeded", "")},
		"rolled out, but Drifted": {sceneOf("RolledOut", "True", "Succeeded", "").but(drifted), "RolledOut is True, but NodeClaim/general-1 is Drifted (AMIDrift)"},
		"rolled out, but older": {sceneOf("RolledOut", "True", "Succeeded", "").but(func(f *Fleet) {
			f.Pools[0].GetAnnotations()
			set(&f.Pools[0], "2", "metadata", "annotations", "karpenter.sh/nodepool-hash")
		}), "NodeClaim/general-1 has karpenter.sh/nodepool-hash 1, and its definition 2"},
		"rolling out":         {scene: sceneOf("RolledOut", "False", "RollingOut", "0 of 1 nodes replaced")},
		"rolling out nothing": {sceneOf("RolledOut", "False", "RollingOut", "0 of 1 nodes replaced").but(noClaims), "but there are 0 NodeClaims"},
		"braked": {scene: sceneOf("RolledOut", "False", "RolloutBraked", "").but(func(f *Fleet) {
			set(&f.Pools[0], []any{map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}}, "spec", "disruption", "budgets")
		})},
		"braked by nothing":           {sceneOf("RolledOut", "False", "RolloutBraked", ""), "no NodePool has a budget of 0"},
		"node drift":                  {scene: sceneOf("NodeDrift", "True", "", driftingOut).but(drifted)},
		"no node drifts":              {sceneOf("NodeDrift", "True", "", driftingOut), "no NodeClaim that it names is Drifted"},
		"launches fail":               {scene: sceneOf("LaunchFailing", "True", "", fails)},
		"a node came since":           {sceneOf("LaunchFailing", "True", "", fails).but(launchedSince), "it has got NodeClaim/general-1 since"},
		"and another launch failed":   {scene: sceneOf("LaunchFailing", "True", "", fails).but(launchedSince).but(func(f *Fleet) { f.Ended["general"] = noon })},
		"a refused launch":            {sceneOf("", "", "", "").but(func(f *Fleet) { is(&f.Claims[0], "Launched", "Unknown", "LaunchFailed") }), "LaunchFailing does not tell of NodePool/general"},
		"applied":                     {scene: sceneOf("", "", "", "").says("applied", "success", "").says("drift", "success", "")},
		"applied, but another value":  {sceneOf("", "", "", "").says("applied", "success", "").says("drift", "success", "").but(edited), "NodePool/general spec.weight is 7, and 50 in Git"},
		"applied, but missing":        {sceneOf("", "", "", "").says("applied", "success", "").but(func(f *Fleet) { f.Classes = nil }), "EC2NodeClass/default is missing"},
		"edited since, and so said":   {scene: sceneOf("", "", "", "").says("applied", "success", "").says("drift", "failure", "1 object differs: …").but(edited)},
		"no drift, but Drifted":       {sceneOf("", "", "", "").says("drift", "success", "").but(drifted), "has no drift, but NodeClaim/general-1 is Drifted (AMIDrift)"},
		"Drifted by a commit":         {scene: sceneOf("", "", "", "").says("drift", "success", "").but(written)},
		"outdated by no commit":       {scene: sceneOf("", "", "", "").says("drift", "failure", "nodes are outdated by no commit").but(drifted)},
		"none is outdated":            {sceneOf("", "", "", "").says("drift", "failure", "nodes are outdated by no commit"), "nodes are outdated, but none is"},
		"not all can be read":         {scene: sceneOf("", "", "", "").says("drift", "failure", "1 object differs: …")},
		"an instance differs":         {scene: sceneOf("InstanceDrift", "True", "", "i-1 of general: it is terminated").but(terminated)},
		"an instance differs, unsaid": {sceneOf("", "", "", "").but(terminated), "InstanceDrift says nothing of i-1 of NodeClaim/general-1, but it is terminated"},
		"no instance differs":         {sceneOf("InstanceDrift", "True", "", "i-1 of general: it is stopped"), "InstanceDrift names i-1 of NodeClaim/general-1, but it runs"},
		"an instance that is gone":    {sceneOf("InstanceDrift", "True", "", "i-1 of general: it is terminated").but(noClaims), "neither EC2 nor a NodeClaim has it"},
		"a stray, unsaid":             {sceneOf("", "", "", "").but(func(f *Fleet) { f.Claims = nil }), "InstanceDrift says nothing of i-1, but no NodeClaim has it"},
		"instances are not asked for": {scene: sceneOf("", "", "", "").but(terminated).but(func(f *Fleet) { f.Compares = 0 })},
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

// TestNoObjectDiffers: if the files tell all of what Git contains, drift of objects is untrue when none differs.
func TestNoObjectDiffers(t *testing.T) {
	s := sceneOf("", "", "", "").says("drift", "failure", "1 object differs: NodePool/general spec.weight: 50 → 7")
	s.told.Git.Objects = s.told.Git.Objects[:1]
	if got := s.told.Untrue(&s.fleet); len(got) != 1 || !strings.Contains(got[0].Words, "objects differ, but none does") {
		t.Errorf("got %+v", got)
	}
	s.but(edited)
	if got := s.told.Untrue(&s.fleet); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestPassing: if a NodeSync cannot reach its Git host, what it reported before is not untrue.
func TestPassing(t *testing.T) {
	s := sceneOf("RolledOut", "True", "Succeeded", "").but(drifted)
	conditions, _, _ := unstructured.NestedSlice(s.told.Sync.Object, "status", "conditions")
	ready := map[string]any{"type": "Ready", "status": "False", "reason": "SourceFailed"}
	_ = unstructured.SetNestedSlice(s.told.Sync.Object, append(conditions, ready), "status", "conditions")
	if got := s.told.Untrue(&s.fleet); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

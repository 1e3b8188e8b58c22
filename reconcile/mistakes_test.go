package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// fleetFiles returns two pools from a variable and a static one, each in its own folder, as in a real repository.
func fleetFiles() map[string]string {
	by := func(name string) string {
		return poolText(name, "default", "{key: karpenter.sh/capacity-type, operator: In, values: [\"${CAPACITY}\"]}")
	}
	return map[string]string{
		"prod/plumbline.yaml":           strings.Replace(plannedYAML, "[./nodes]", "[./class.yaml, ./a, ./b, ./s]", 1) + "substitute: {CAPACITY: spot}\n",
		"prod/class.yaml":               plannedClass,
		"prod/a/kustomization.yaml":     "resources: [pool.yaml]\n",
		"prod/a/pool.yaml":              by("a"),
		"prod/b/pool.yaml":              by("b"),
		"prod/s/pool.yaml":              by("s") + "  replicas: 4\n",
		"staging/plumbline.yaml":        plannedYAML,
		"staging/nodes/class.yaml":      plannedClass,
		"staging/nodes/other-pool.yaml": poolText("staging", "default", "{key: kubernetes.io/arch, operator: In, values: [arm64]}"),
	}
}

// newFleet returns a cluster in which these files are applied as they are, with four nodes in each pool.
func newFleet(t *testing.T, shared *plannedShelf) *plannedWorld {
	t.Helper()
	w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), files: fstest.MapFS{}}
	w.install(shared.identity)
	w.sync.Status.LastAppliedRevision, w.sync.Status.LastAttemptedRevision = "main@sha1:0", "main@sha1:0"
	w.recorded = &apply.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}, Revision: "main@sha1:0"}
	files := fleetFiles()
	for _, file := range []string{"class.yaml", "a/pool.yaml", "b/pool.yaml", "s/pool.yaml"} {
		object := w.server.Definition(t, strings.ReplaceAll(files["prod/"+file], "${CAPACITY}", "spot"))
		if err := w.server.ApplyAs(t.Context(), plan.Desired(object, plan.OwnerOf(namespace, "prod")), v1alpha1.FieldManager, true); err != nil {
			t.Fatal(err)
		}
		uid := w.server.Object(object.Ref).GetUID()
		w.recorded.Objects[object.Ref] = uid
		if object.Ref.Kind != render.NodePool {
			continue
		}
		w.recorded.Pools[object.Ref.Name] = true
		for i := range 4 {
			w.others = append(w.others, claimOf(object.Ref.Name, uid, i))
		}
	}
	return w
}

// TestNoMistakeEndsNodesUnheld shows that what a commit, a merge or a setting removes by mistake is refused or held
// under the defaults of spec.guard, that the plan reports so before, and that each line names the object and the number
// of nodes. Replacements are held if there is no brake; with it, they proceed within disruption budgets.
func TestNoMistakeEndsNodesUnheld(t *testing.T) {
	shared := newPlannedShelf(t)
	const (
		missing  = "amiFamily: AL2023\n  amiSelectorTerms: [{id: ami-00000000000000000}]"
		onDemand = "substitute: {CAPACITY: on-demand}\n"
		markers  = "<<<<<<< HEAD\n  weight: 1\n=======\n  weight: 2\n>>>>>>> feature\n"
		tooMany  = "12 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 12"
		four     = "4 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 4"
		leaving  = "3 NodePools would be removed, but guard.maxRemovedPools allows 1"
	)
	for name, c := range map[string]struct {
		// change makes the mistake in the files, or in the NodeSync.
		change func(files map[string]string)
		path   string
		// report sets spec.rollout.onFailure to Report, so that replacements count in total.
		report bool
		// stopped is the start of the error if the whole commit is refused; changes are the starts of the lines for its
		// parts.
		stopped string
		changes []string
	}{
		"none": {change: func(map[string]string) {}},
		"a branch without these pools": {
			change: func(files map[string]string) {
				maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "prod/") })
				for name, text := range maps.Clone(files) {
					files[strings.Replace(name, "staging/", "prod/", 1)] = text
				}
			},
			changes: []string{"Create NodePool/staging ", "Remove NodePool/a MaxRemovedPools: " + leaving, "Remove NodePool/b MaxRemovedPools: " + leaving, "Remove NodePool/s MaxRemovedPools: " + leaving},
		},
		"another path": {
			path:    "./staging",
			change:  func(map[string]string) {},
			changes: []string{"Create NodePool/staging ", "Remove NodePool/a MaxRemovedPools: " + leaving, "Remove NodePool/b MaxRemovedPools: " + leaving, "Remove NodePool/s MaxRemovedPools: " + leaving},
		},
		"a kustomization of nothing among others": {
			change:  func(files map[string]string) { files["prod/a/kustomization.yaml"] = "resources: []\n" },
			changes: []string{"Remove NodePool/a MaxDisruptedNodes: " + four},
		},
		"a kustomization that lost its list": {
			change:  func(files map[string]string) { files["prod/a/kustomization.yaml"] = "resources:\n" },
			stopped: "prod/a/kustomization.yaml",
		},
		"a merge with markers in a pool":            {change: func(files map[string]string) { files["prod/b/pool.yaml"] += markers }, stopped: "prod/b/pool.yaml:9: "},
		"a merge with markers in a kustomization":   {change: func(files map[string]string) { files["prod/a/kustomization.yaml"] += markers }, stopped: "prod/a/kustomization.yaml:2: "},
		"a merge with markers in plumbline.yaml":    {change: func(files map[string]string) { files["prod/plumbline.yaml"] += markers }, stopped: "prod/plumbline.yaml:"},
		"half of a merge: a pool's file is dropped": {change: func(files map[string]string) { delete(files, "prod/b/pool.yaml"); files["prod/b/note.txt"] = "" }, changes: []string{"Remove NodePool/b MaxDisruptedNodes: " + four}},
		"half of a merge: a file that is listed is dropped": {
			change:  func(files map[string]string) { delete(files, "prod/a/pool.yaml") },
			stopped: "prod/a/kustomization.yaml",
		},
		"half of a merge: a folder that is listed is dropped": {
			change:  func(files map[string]string) { delete(files, "prod/b/pool.yaml") },
			stopped: "prod/plumbline.yaml",
		},
		"half of a merge: both sides of a rename are kept": {
			change:  func(files map[string]string) { files["prod/b/renamed.yaml"] = files["prod/b/pool.yaml"] },
			stopped: "prod/b/renamed.yaml",
		},
		"a variable that all pools have is another": {
			report: true,
			change: func(files map[string]string) {
				files["prod/plumbline.yaml"] = strings.Replace(files["prod/plumbline.yaml"], "substitute: {CAPACITY: spot}\n", onDemand, 1)
			},
			changes: []string{"Hold NodePool/a MaxDisruptedNodes Replace: " + tooMany, "Hold NodePool/b MaxDisruptedNodes Replace: " + tooMany, "Hold NodePool/s MaxDisruptedNodes Replace: " + tooMany},
		},
		"a variable that all pools have is gone": {
			change: func(files map[string]string) {
				files["prod/plumbline.yaml"] = strings.Replace(files["prod/plumbline.yaml"], "substitute: {CAPACITY: spot}\n", "", 1)
			},
			stopped: "prod/a/pool.yaml:8: ",
		},
		"all pools on a class whose AMI is not there": {
			report: true,
			change: func(files map[string]string) {
				files["prod/class.yaml"] += "---\n" + strings.NewReplacer("name: default", "name: broken", "amiSelectorTerms: [{alias: al2023@latest}]", missing).Replace(plannedClass)
				for name, text := range files {
					if strings.HasPrefix(name, "prod/") && strings.HasSuffix(name, "/pool.yaml") {
						files[name] = strings.Replace(text, "name: default}", "name: broken}", 1)
					}
				}
			},
			changes: []string{"Create EC2NodeClass/broken ", "Hold NodePool/a MaxDisruptedNodes Replace: " + tooMany, "Hold NodePool/b MaxDisruptedNodes Replace: " + tooMany, "Hold NodePool/s MaxDisruptedNodes Replace: " + tooMany},
		},
		"the class of all pools has an AMI that is not there, under the brake": {
			change: func(files map[string]string) {
				files["prod/class.yaml"] = strings.Replace(plannedClass, "amiSelectorTerms: [{alias: al2023@latest}]", missing, 1)
			},
			changes: []string{"Update EC2NodeClass/default Differs Replace: "},
		},
		"the class of all pools has an AMI that is not there": {
			report: true,
			change: func(files map[string]string) {
				files["prod/class.yaml"] = strings.Replace(plannedClass, "amiSelectorTerms: [{alias: al2023@latest}]", missing, 1)
			},
			changes: []string{"Hold EC2NodeClass/default MaxDisruptedNodes Replace: " + tooMany},
		},
		"no replicas of a static pool": {
			change: func(files map[string]string) {
				files["prod/s/pool.yaml"] = strings.Replace(files["prod/s/pool.yaml"], "replicas: 4", "replicas: 0", 1)
			},
			changes: []string{"Hold NodePool/s MaxDisruptedNodes Drain: " + four},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, files := newFleet(t, shared), fleetFiles()
			c.change(files)
			for name, text := range files {
				w.files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if c.path != "" {
				w.sync.Spec.Path = c.path
			}
			if c.report {
				w.sync.Spec.Rollout.OnFailure = v1alpha1.RolloutReport
			}
			passed, diff := w.compare(t, shared)
			if diff != "" {
				t.Fatal(diff)
			}
			if c.stopped == "" != (passed.Stopped == "") || !strings.Contains(passed.Stopped, c.stopped) {
				t.Errorf("stopped by %q, want %q", passed.Stopped, c.stopped)
			}
			if !slices.EqualFunc(c.changes, passed.Changes, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
				t.Errorf("changes\n%s\nwant\n%s", strings.Join(passed.Changes, "\n"), strings.Join(c.changes, "\n"))
			}
			for _, pool := range []string{"a", "b", "s"} {
				live := w.server.Object(render.Ref{Kind: render.NodePool, Name: pool})
				if live == nil || live.GetDeletionTimestamp() != nil || !strings.Contains(fmt.Sprint(live.Object["spec"]), "spot") {
					t.Errorf("NodePool/%s is %v", pool, live)
				}
			}
		})
	}
}

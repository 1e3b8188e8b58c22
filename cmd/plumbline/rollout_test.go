package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// inWaves has two pools in waves; that of general is held.
func inWaves(n *v1alpha1.NodeSync) {
	began, next := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), metav1.NewTime(time.Now().Add(6*time.Minute+time.Second/2))
	n.Status.Rollout = &v1alpha1.Rollout{Revision: "main@sha1:1", Nodes: 20, Outdated: 13}
	n.Status.PoolRollouts = []v1alpha1.PoolRollout{
		{Pool: "batch", Wave: &v1alpha1.RolloutWave{Number: 3, Of: 6, State: v1alpha1.WaveJudging, Size: 4, Begun: 4, New: 7, Good: 4, BeganAt: began, NextAt: &next}},
		{Pool: "general", Wave: &v1alpha1.RolloutWave{Number: 1, Of: 3, State: v1alpha1.WaveHeld, Size: 1, Begun: 1, New: 1, BeganAt: began, Message: "no pod ran on the new node"}},
		{Pool: "web", Message: "the nodes of 3 launches in a row have not joined the cluster"},
	}
}

// TestRollout prints the waves of a NodeSync.
func TestRollout(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod", inWaves), nodeSync("still"))
	got := plumbline(t, "rollout", "--kubeconfig", kubeconfig)
	lines := strings.Split(got.out, "\n")
	later := regexp.MustCompile(`in 5m\d+s`) // on a slow machine
	for i := range lines {
		lines[i] = later.ReplaceAllString(strings.Join(strings.Fields(lines[i]), " "), "in 6m")
	}
	want := []string{
		"NODESYNC NODES NODEPOOL WAVE BEGUN NEW GOOD NEXT WHY",
		"prod 7 of 20 nodes replaced batch 3 of 6 Judging 4 of 4 4 of 7 in 6m",
		"prod 7 of 20 nodes replaced general 1 of 3 Held 1 of 1 0 of 1 no pod ran on the new node",
		"prod 7 of 20 nodes replaced web the nodes of 3 launches in a row have not joined the cluster",
		"still each matches", "",
	}
	if diff := cmp.Diff(want, lines); diff != "" || got.code != exitDone {
		t.Errorf("code %d (-want +got):\n%s", got.code, diff)
	}
	if got = plumbline(t, "rollout", "prod", "-o", "json", "--kubeconfig", kubeconfig); !strings.Contains(got.out, `"state": "Held"`) {
		t.Errorf("it prints\n%s", got.out)
	}
	if got = plumbline(t, "rollout", "absent", "--kubeconfig", kubeconfig); got.code != exitFailed || got.out != "" {
		t.Errorf("code %d, prints %q", got.code, got.out)
	}
}

// TestResumeWave continues waves, with a reason.
func TestResumeWave(t *testing.T) {
	s, kubeconfig := serve(t, nodeSync("prod", inWaves), nodeSync("still"))
	for name, c := range map[string]struct {
		args       []string
		code       int
		says, want string
	}{
		"one":              {args: []string{"prod", "--wave", "--pool", "general", "--reason", "no pods"}, says: "the wave is continued in general", want: "general@2026-03-01T12:00:00Z"},
		"all":              {args: []string{"prod", "--wave", "--reason", "no pods"}, says: "the wave is continued in batch, general", want: "batch@2026-03-01T12:00:00Z,general@2026-03-01T12:00:00Z"},
		"none":             {args: []string{"still", "--wave", "--reason", "no pods"}, says: "no wave is judged or held"},
		"another pool":     {args: []string{"prod", "--wave", "--pool", "web", "--reason", "no pods"}, code: exitFailed, says: "no wave of NodePool web is judged or held"},
		"without a reason": {args: []string{"prod", "--wave"}, code: exitFailed, says: "--wave and --reason belong together"},
		"without --wave":   {args: []string{"prod", "--reason", "x"}, code: exitFailed, says: "--wave and --reason belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			sync := s.objects[syncPath+"prod"].(*v1alpha1.NodeSync)
			sync.Annotations = nil
			got := plumbline(t, append(append([]string{"resume-rollout"}, c.args...), "--kubeconfig", kubeconfig)...)
			if got.code != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
			annotations := s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Annotations
			if annotations[v1alpha1.ResumeWaveAnnotation] != c.want || c.want != "" && annotations[v1alpha1.ResumeWaveReasonAnnotation] != "no pods" {
				t.Errorf("the annotations are %v", annotations)
			}
		})
	}
}

// TestTheLastWaveIsContinued: once its last node is replaced, and until its workloads have been judged.
func TestTheLastWaveIsContinued(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		wave v1alpha1.RolloutWave
		want string
	}{
		"nodes wait":    {wave: v1alpha1.RolloutWave{State: v1alpha1.WaveLast, Waiting: 1}},
		"it is watched": {wave: v1alpha1.RolloutWave{State: v1alpha1.WaveLast, ReplacedAt: &at}, want: "general@2026-03-01T12:00:00Z"},
		"it was judged": {wave: v1alpha1.RolloutWave{State: v1alpha1.WaveLast, ReplacedAt: &at, WatchedAt: &at}},
		"it has failed": {wave: v1alpha1.RolloutWave{State: v1alpha1.WaveFailed, ReplacedAt: &at}},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, nodeSync("prod", func(n *v1alpha1.NodeSync) {
				c.wave.BeganAt = at
				n.Status.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "general", Wave: &c.wave}}
			}))
			plumbline(t, "resume-rollout", "prod", "--wave", "--reason", "no pods", "--kubeconfig", kubeconfig)
			if got := s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Annotations[v1alpha1.ResumeWaveAnnotation]; got != c.want {
				t.Errorf("the annotation is %q", got)
			}
		})
	}
}

package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// clusterOf is one with CoreDNS as an add-on, plumbline and Karpenter pinned by their charts, metrics-server of Flux, and two
// node groups.
func clusterOf(change func(*world)) *world {
	w := newWorld().group("system", 1, "a", "b").group("web", 1, "a", "b", "a").autoscaler(nil)
	w.Addons = []cloud.Addon{{Name: "coredns", ARN: "arn:coredns", Version: "v1"}, {Name: "kube-proxy"}}
	w.deployment("kube-system", "coredns", nil, "system-0", "web-0")
	w.deployment("kube-system", "karpenter", pinnedDeployment, "system-0", "system-1")
	w.deployment("shop", "web", nil, "web-0", "web-1", "web-2")
	if change != nil {
		change(w)
	}
	return w
}

func decide(t *testing.T, w *world, wish Wish) *Plan {
	t.Helper()
	p, err := Decide(wish, &w.Facts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecide(t *testing.T) {
	p := decide(t, clusterOf(nil), Wish{})
	want := []string{
		"test Karpenter: pending",
		"pin add-on addon/coredns: pending",
		"stop Deployment/kube-system/cluster-autoscaler: pending",
		"record nodegroup/web: pending",
		"cordon nodegroup/web: pending",
		"lower nodegroup/web: pending",
		"move Node/web-0: pending", // zone a has two nodes
		"move Node/web-1: pending",
		"move Node/web-2: pending",
	}
	// system keeps its two nodes: nothing is to do for it, except its minimum, which stays.
	if diff := cmp.Diff(want, steps(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Next().Action != Test || p.Steps[3].Tag != "min=1 max=10 desired=3 keep=0" {
		t.Errorf("next %+v, record %q", p.Next(), p.Steps[3].Tag)
	}
	groups := map[string][2]int{}
	for _, g := range p.Groups {
		groups[g.Group] = [2]int{g.Nodes, g.Keep}
	}
	if diff := cmp.Diff(map[string][2]int{"nodegroup/system": {2, 2}, "nodegroup/web": {3, 0}}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestDecideContinues: each thing that was done is Done, whichever run has done it.
func TestDecideContinues(t *testing.T) {
	w := clusterOf(func(w *world) {
		for i := range w.Deployments {
			switch d := &w.Deployments[i]; d.Name {
			case "cluster-autoscaler":
				d.Spec.Replicas, d.Status.Replicas = new(int32(0)), 0
				d.Annotations[ReplicasAnnotation] = "2"
			case "coredns":
				pinnedDeployment(d)
			}
		}
		values, mode, err := PinValues("", []string{"affinity"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Addons[0].Configuration, w.Addons[0].Tags = values, map[string]string{PinAnnotation: mode}
		w.NodeGroups[1].Tags[SizesTag] = "min=1 max=10 desired=4 keep=1"
		w.NodeGroups[1].Min, w.Scaling[1].Min = 1, 1
		for _, name := range []string{"web-0", "web-2"} {
			n := w.node2(name)
			n.Spec.Unschedulable, n.Annotations[CordonAnnotation] = true, "2026-12-01T00:00:00Z"
		}
	})
	p := decide(t, w, Wish{Keep: map[string]int{"nodegroup/system": 2}})
	want := []string{
		"test Karpenter: done", "pin add-on addon/coredns: done", "stop Deployment/kube-system/cluster-autoscaler: done",
		"record nodegroup/web: done", "cordon nodegroup/web: done",
		"move Node/web-0: pending", "move Node/web-2: pending",
	}
	if diff := cmp.Diff(want, steps(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Next().Node != "web-0" {
		t.Errorf("next is %+v", p.Next())
	}
	if p := decide(t, w, Wish{Keep: map[string]int{"nodegroup/system": 2, "nodegroup/web": 0}}); p.Steps[3].State != Pending || p.Steps[3].Tag != "min=1 max=10 desired=4 keep=0" {
		t.Errorf("with another --keep: %v, %q", steps(p), p.Steps[3].Tag)
	}
}

func (w *world) node2(name string) *corev1.Node { return w.Facts.node(name) }

// TestDecideWaits: what another tool keeps is never a step of the command, and nothing that depends on it is done.
func TestDecideWaits(t *testing.T) {
	flux := map[string]string{"helm.toolkit.fluxcd.io/name": "ca", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	for name, c := range map[string]struct {
		change func(*world)
		target string
		words  string
	}{
		"a HelmRelease has the autoscaler": {func(w *world) {
			w.Deployments[0].Labels = flux
		}, "Deployment/kube-system/cluster-autoscaler", "HelmRelease flux-system/ca, then: flux reconcile helmrelease ca"},
		"Helm has the autoscaler": {func(w *world) {
			w.Deployments[0].Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
			w.Deployments[0].Annotations = map[string]string{"meta.helm.sh/release-name": "ca", "meta.helm.sh/release-namespace": "kube-system"}
		}, "Deployment/kube-system/cluster-autoscaler", "helm upgrade ca CHART --namespace kube-system --reuse-values --set replicaCount=0"},
		"Argo CD has metrics-server": {func(w *world) {
			w.deployment("kube-system", "metrics-server", func(d *appsv1.Deployment) {
				d.Annotations["argocd.argoproj.io/tracking-id"] = "infra:apps/Deployment:kube-system/metrics-server"
			}, "web-1")
		}, "Deployment/kube-system/metrics-server", "Application infra, then: argocd app sync infra"},
		"a Kustomization has metrics-server": {func(w *world) {
			w.deployment("kube-system", "metrics-server", func(d *appsv1.Deployment) {
				d.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
			}, "web-1")
		}, "Deployment/kube-system/metrics-server", "flux reconcile kustomization infra"},
		"an add-on without affinity": {func(w *world) { w.Affinity = nil }, "Deployment/kube-system/coredns", "--unpinned kube-system/coredns"},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(t, clusterOf(c.change), Wish{Tested: true})
			for next := p.Next(); next.State != Waits; next = p.Next() {
				if !next.independent() {
					t.Fatalf("%s is next, before what waits", next.Target)
				}
				next.State = Done
			}
			if s := p.Next(); s.Target != c.target || !strings.Contains(s.ByHand, c.words) || s.What == "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestUnowned: a workload that no tool keeps is patched, and one that the user leaves is not.
func TestUnowned(t *testing.T) {
	add := func(w *world) { w.deployment("kube-system", "snapshotter", nil, "web-1") }
	find := func(p *Plan) *Step {
		for i := range p.Steps {
			if p.Steps[i].Action == PinWorkload {
				return &p.Steps[i]
			}
		}
		return nil
	}
	if s := find(decide(t, clusterOf(add), Wish{})); s == nil || s.State != Pending || s.Mode != Added || !IsPinned(s.Affinity) {
		t.Errorf("%+v", s)
	}
	if s := find(decide(t, clusterOf(add), Wish{Unpinned: []string{"kube-system/snapshotter"}})); s != nil {
		t.Errorf("%+v", s)
	}
}

func TestDecideRefuses(t *testing.T) {
	w := clusterOf(nil)
	w.Deployments = w.Deployments[1:]
	if _, err := Decide(Wish{}, &w.Facts); !errors.Is(err, ErrNoAutoscaler) {
		t.Errorf("without an autoscaler: %v", err)
	}
	for name, c := range map[string]struct {
		keep  map[string]int
		words string
	}{
		"one node":       {map[string]int{"nodegroup/system": 1, "nodegroup/web": 0}, "1 node would stay for the controllers, which need 2; keep at least nodegroup/"},
		"one zone":       {map[string]int{"nodegroup/system": 0, "nodegroup/web": 1}, "keep at least nodegroup/"},
		"no such group":  {map[string]int{"nodegroup/api": 1}, "no such group of nodes: it has nodegroup/system, nodegroup/web"},
		"not of its own": {map[string]int{"asg/eks-web": 1}, "--keep asg/eks-web"},
	} {
		if _, err := Decide(Wish{Keep: c.keep}, &clusterOf(nil).Facts); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeep: by default the groups keep what the controllers need: nodes that have room for them and that they tolerate, in
// two zones.
func TestKeep(t *testing.T) {
	for name, c := range map[string]struct {
		w    func() *world
		wish map[string]int
		want map[string][]string // the nodes that go, by group
	}{
		"the only group keeps two, in two zones": {
			func() *world {
				return newWorld().group("web", 1, "a", "a", "b", "b").autoscaler(nil).deployment("kube-system", "coredns", nil, "web-0", "web-1")
			}, nil, map[string][]string{"nodegroup/web": {"web-1", "web-3"}},
		},
		"nodes outside of groups count": {
			func() *world {
				w := newWorld().group("web", 1, "a", "b").autoscaler(nil).deployment("kube-system", "coredns", nil, "web-0")
				w.node("own-1", "i-1", "a", nil)
				w.node("own-2", "i-2", "b", nil)
				return w
			}, nil, map[string][]string{"nodegroup/web": {"web-0", "web-1"}},
		},
		"Karpenter's nodes do not": {
			func() *world {
				w := newWorld().group("web", 1, "a", "b").autoscaler(nil).deployment("kube-system", "coredns", nil, "web-0")
				w.node("own-1", "i-1", "a", map[string]string{nodePoolLabel: "general"})
				w.node("own-2", "i-2", "b", map[string]string{nodePoolLabel: "general"})
				return w
			}, nil, map[string][]string{"nodegroup/web": nil},
		},
		"nor do nodes with a taint": {
			func() *world {
				w := newWorld().group("gpu", 0, "a", "b").group("web", 1, "a", "b", "a").autoscaler(nil).deployment("kube-system", "coredns", nil, "web-0")
				for _, name := range []string{"gpu-0", "gpu-1"} {
					w.node2(name).Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
				}
				return w
			}, nil, map[string][]string{"nodegroup/gpu": {"gpu-0", "gpu-1"}, "nodegroup/web": {"web-2"}},
		},
		"what does not fit keeps another one": {
			func() *world {
				w := newWorld().group("web", 1, "a", "b", "a").autoscaler(nil)
				nodes := make([]string, 0, 24)
				for range 8 {
					nodes = append(nodes, "web-0", "web-1", "web-2")
				}
				return w.deployment("kube-system", "controllers", nil, nodes...) // 24 of 200m: ten on each node
			}, nil, map[string][]string{"nodegroup/web": nil},
		},
		"a group that no autoscaler scales stays": {
			func() *world {
				w := clusterOf(nil)
				for i := range w.Scaling {
					delete(w.Scaling[i].Tags, "k8s.io/cluster-autoscaler/enabled")
				}
				return w
			}, nil, map[string][]string{"nodegroup/system": nil, "nodegroup/web": nil},
		},
		"broken nodes are no place for controllers": {
			func() *world {
				w := newWorld().group("system", 1, "a", "b").group("web", 1, "a", "b", "a").autoscaler(nil).deployment("kube-system", "coredns", nil, "web-0")
				w.node2("system-0").Status.Conditions = nil
				w.node2("system-1").Spec.Unschedulable = true
				return w
			}, nil, map[string][]string{"nodegroup/system": {"system-0", "system-1"}, "nodegroup/web": {"web-2"}},
		},
		"unless the user names it": {
			func() *world {
				w := clusterOf(nil)
				delete(w.Scaling[1].Tags, "k8s.io/cluster-autoscaler/enabled")
				return w
			}, map[string]int{"nodegroup/web": 2}, map[string][]string{"nodegroup/system": {"system-0", "system-1"}, "nodegroup/web": {"web-2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(t, c.w(), Wish{Keep: c.wish})
			got := map[string][]string{}
			for _, g := range p.Groups {
				got[g.Group] = g.Going
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestGroups: what is what, and which of them an autoscaler scales.
func TestGroups(t *testing.T) {
	w := newWorld().group("web", 1, "a").autoscaler(func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command, c.Args = []string{"/cluster-autoscaler"}, []string{"--nodes", "1:10:own", "--nodes=0:3:absent", "--v=4"}
	})
	w.Scaling = append(w.Scaling, cloud.AutoScalingGroup{Name: "own", Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}},
		cloud.AutoScalingGroup{Name: "manual", Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}},
		cloud.AutoScalingGroup{Name: "of-another", Tags: map[string]string{"kubernetes.io/cluster/test": "owned"}},
		// an autoscaler that discovers groups by a tag which those of all clusters have does not make them this cluster's
		cloud.AutoScalingGroup{Name: "absent", Tags: map[string]string{"kubernetes.io/cluster/test": "owned"}},
		cloud.AutoScalingGroup{Name: "absent", Tags: map[string]string{"eks:cluster-name": "test"}})
	w.Fargate = []cloud.FargateProfile{{Name: "jobs", Selectors: []cloud.FargateSelector{{Namespace: "jobs"}}}}
	w.node("fargate-1", "", "a", map[string]string{computeTypeLabel: "fargate"})
	w.pod("jobs", "one", "fargate-1", "Job", "one").Labels["eks.amazonaws.com/fargate-profile"] = "jobs"
	p := decide(t, w, Wish{})
	var got []string
	for _, g := range p.Groups {
		scaled := ""
		if g.Autoscaled {
			scaled = ", scaled"
		}
		got = append(got, g.Group+": "+g.Kind+scaled)
	}
	want := []string{
		"asg/manual: self-managed Auto Scaling group", "asg/own: self-managed Auto Scaling group, scaled", "nodegroup/web: managed node group",
		"fargate/jobs: Fargate profile",
	}
	if diff := cmp.Diff(want, got); diff != "" || p.Groups[3].Pods != 1 {
		t.Errorf("%d pods on Fargate (-want +got):\n%s", p.Groups[3].Pods, diff)
	}
	keys, names := TagKeys("prod", w.Autoscalers())
	if diff := cmp.Diff([]string{"k8s.io/cluster/prod", "kubernetes.io/cluster/prod"}, keys); diff != "" || len(names) != 2 {
		t.Errorf("names %v, keys (-want +got):\n%s", names, diff)
	}
}

func TestBlocked(t *testing.T) {
	w := clusterOf(func(w *world) {
		w.pod("shop", "debug", "web-0", "", "")
		w.pod("shop", "batch", "web-1", "Job", "batch").Annotations[safeToEvict] = "false"
		w.pod("shop", "proxy", "web-1", "DaemonSet", "proxy")
	})
	want := []string{
		"Node/web-0: pod shop/debug has no controller that would recreate it: delete it yourself",
		`Node/web-1: pod shop/batch is annotated cluster-autoscaler.kubernetes.io/safe-to-evict: "false": wait until it ends, or remove the annotation`,
	}
	if diff := cmp.Diff(want, decide(t, w, Wish{}).Blocked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecord(t *testing.T) {
	r := Record{cloud.Sizes{Min: 1, Max: 10, Desired: 4}, 2}
	if got, ok := ParseRecord(r.String()); !ok || got != r {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, bad := range []string{"", "min=1", "min=1 max=2 desired=x keep=1", "min=1 max=2 desired=-1 keep=1", "min=1 min=1 desired=1 keep=1"} {
		if _, ok := ParseRecord(bad); ok {
			t.Errorf("%q is a record", bad)
		}
	}
}

// TestBack reverses what was done, and nothing else.
func TestBack(t *testing.T) {
	if p, err := Back(&clusterOf(nil).Facts); err != nil || p.Next() != nil {
		t.Errorf("of nothing: %v, %v", steps(p), err)
	}
	w := clusterOf(func(w *world) {
		w.Deployments[0].Spec.Replicas, w.Deployments[0].Status.Replicas = new(int32(0)), 0
		w.Deployments[0].Annotations[ReplicasAnnotation] = "2"
		w.NodeGroups[1].Tags[SizesTag] = "min=1 max=10 desired=4 keep=0"
		w.node2("web-1").Annotations[CordonAnnotation] = "x"
		w.Addons[0].Configuration = `{"replicaCount":3,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"karpenter.sh/nodepool","operator":"DoesNotExist"}]}]}}}}`
		w.Addons[0].Tags = map[string]string{PinAnnotation: Added}
		w.deployment("kube-system", "snapshotter", func(d *appsv1.Deployment) {
			pinnedDeployment(d)
			d.Annotations[PinAnnotation] = Added
		}, "system-0")
	})
	p, err := Back(&w.Facts)
	want := []string{
		"restore nodegroup/web: pending", "forget nodegroup/web: pending", "uncordon Nodes: pending",
		"start Deployment/kube-system/cluster-autoscaler: pending", "unpin add-on addon/coredns: pending", "unpin Deployment/kube-system/snapshotter: pending",
	}
	if diff := cmp.Diff(want, steps(p)); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if p.Steps[0].Sizes != (cloud.Sizes{Min: 1, Max: 10, Desired: 4}) || p.Steps[3].Replicas != 2 || p.Steps[4].Values != `{"replicaCount":3}` || p.Steps[5].Affinity != nil {
		t.Errorf("%+v", p.Steps)
	}
}

// TestNodesThatStayNow: a larger --keep after an interruption makes nodes schedulable again, before the first is drained.
func TestNodesThatStayNow(t *testing.T) {
	w := newWorld().group("web", 1, "a", "b", "a").autoscaler(nil)
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		w.node2(name).Annotations[CordonAnnotation], w.node2(name).Spec.Unschedulable = "x", true
	}
	var actions []string
	for _, s := range decide(t, w, Wish{Keep: map[string]int{"nodegroup/web": 2}, Tested: true}).Steps {
		if s.State == Pending {
			actions = append(actions, string(s.Action)+" "+strings.Join(s.Nodes, " ")+s.Node)
		}
	}
	if diff := cmp.Diff([]string{"uncordon web-0 web-1", "move web-2"}, actions[len(actions)-2:]); diff != "" {
		t.Errorf("(-want +got):\n%s\nof %v", diff, actions)
	}
}

// TestInstanceWithoutANode: a migration is not over while an instance may still join the cluster.
func TestInstanceWithoutANode(t *testing.T) {
	w := newWorld().group("web", 1, "a", "b", "a").autoscaler(nil)
	w.Scaling[0].Instances = append(w.Scaling[0].Instances, cloud.GroupInstance{ID: "i-late", Zone: "b", State: "Pending"})
	steps := decide(t, w, Wish{Tested: true}).Steps
	last := steps[len(steps)-1]
	if last.Action != Await || last.State != Pending || last.What != "wait until 1 instance without a Node has joined the cluster, or is terminated" {
		t.Errorf("the last step is %+v", last)
	}
}

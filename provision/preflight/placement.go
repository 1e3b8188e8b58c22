package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is a workload on which the cluster's nodes depend, with its pods that are scheduled.
type Workload struct {
	// Name is what it is: Karpenter's controller, CoreDNS, …; Object is its Deployment, such as kube-system/coredns.
	Name, Object string
	// Essential reports whether no node is launched without it.
	Essential bool
	Pods      []Place
}

// Place is where a pod runs.
type Place struct {
	Pod, Node, Zone string
	// Pool is the node's NodePool; empty if Karpenter does not own the node.
	Pool string
}

// placement checks that what nodes depend on does not run on the nodes that depend on it.
func placement() Check {
	return Check{
		ID: "placement",
		Why: "if Karpenter's controller runs on a node that Karpenter launched, or in one zone only, it may be gone " +
			"when its node or the zone is, and then launches no node, not even for itself",
		needs: []source{ofControllers, ofPlacement},
		look:  lookAtPlacement,
	}
}

func lookAtPlacement(o Observed) (string, []Finding) {
	if o.Workloads.Err != nil {
		return "the pods of Karpenter, CoreDNS, CSI controllers and plumbline", unread(o.Workloads.Err)
	}
	var names []string
	var found []Finding
	for _, w := range o.Workloads.Of {
		names = append(names, w.Name)
		found = append(found, w.judge(o.SystemZones)...)
	}
	if len(names) == 0 {
		return "no pods of Karpenter, CoreDNS, CSI controllers or plumbline", nil
	}
	return "the nodes and zones of " + strings.Join(names, ", "), found
}

// judge returns what is wrong with the places of a workload. The zones are those that have nodes that Karpenter does not own.
func (w Workload) judge(zones []string) []Finding {
	if len(w.Pods) == 0 {
		return nil // it is scaled to 0, or pending
	}
	var found []Finding
	var on, in []string
	for _, p := range w.Pods {
		if p.Pool != "" {
			on = append(on, fmt.Sprintf("%s on Node/%s of NodePool/%s", p.Pod, p.Node, p.Pool))
		}
		if p.Zone != "" && !slices.Contains(in, p.Zone) {
			in = append(in, p.Zone)
		}
	}
	switch {
	case len(on) > 0 && w.Essential:
		found = append(found, Finding{
			Status: Problem, Message: w.Name + " runs on nodes that Karpenter owns: " + strings.Join(on, "; "),
			Fix: "keep the affinity of the chart (karpenter.sh/nodepool DoesNotExist), give the cluster nodes of a managed node group or Fargate, " +
				"and restart it: " + w.restart(),
		})
	case len(on) == len(w.Pods):
		found = append(found, Finding{
			Status: Warning, Message: "all pods of " + w.Name + " run on nodes that Karpenter owns: " + strings.Join(on, "; "),
			Fix: "let at least one run on a managed node group or Fargate, with an affinity to nodes without the label karpenter.sh/nodepool",
		})
	}
	if len(w.Pods) == 1 {
		return append(found, Finding{
			Status: Warning, Message: fmt.Sprintf("%s has one pod: while it is rescheduled, nothing does its work", w.Name),
			Fix: "run at least two: kubectl scale deployment " + w.target() + " --replicas=2, or the value of its chart",
		})
	}
	if len(in) != 1 {
		return found
	}
	f := Finding{
		Status: Warning, Message: fmt.Sprintf("all %d pods of %s run in %s", len(w.Pods), w.Name, in[0]),
		Fix: "restart it, so that its pods are spread again: " + w.restart(),
	}
	if len(zones) < 2 {
		f.Message += ": all nodes that Karpenter does not own are in one zone, so the chart's spread has no effect"
		f.Fix = "add nodes in another zone to the managed node group, then: " + w.restart()
	}
	return append(found, f)
}

func (w Workload) target() string {
	namespace, name, _ := strings.Cut(w.Object, "/")
	return name + " -n " + namespace
}

func (w Workload) restart() string { return "kubectl rollout restart deployment " + w.target() }

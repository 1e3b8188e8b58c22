package preflight

// NodeDaemonSet is a DaemonSet that a node needs until its last pod has terminated, of a CSI driver or a CNI plugin.
type NodeDaemonSet struct {
	// Name is its namespace and name, and what it runs.
	Name string
	// Tolerates reports whether its pods stay on a node that Karpenter drains. If not, Patch is the command that adds the
	// toleration.
	Tolerates bool
	Patch     string
}

// daemonSets checks that drains do not evict what unmounts volumes and connects pods.
func daemonSets() Check {
	return Check{
		ID: "daemonsets",
		Why: "if a drain evicts the pods of a CSI driver, volumes stay attached for six minutes or longer, and pods that need them " +
			"do not start elsewhere",
		needs: []source{ofDaemonSets},
		look:  lookAtDaemonSets,
	}
}

func lookAtDaemonSets(o Observed) (string, []Finding) {
	const looked = "the tolerations of DaemonSets of CSI drivers and CNI plugins"
	if o.DaemonSets.Err != nil {
		return looked, unread(o.DaemonSets.Err)
	}
	var found []Finding
	for _, d := range o.DaemonSets.Of {
		if !d.Tolerates {
			found = append(found, Finding{
				Status: Problem, Fix: d.Patch,
				Message: d.Name + " does not tolerate karpenter.sh/disrupted:NoSchedule: Karpenter evicts its pods from a node that it drains",
			})
		}
	}
	return looked, found
}

package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// Webhook is a webhook configuration for objects of Karpenter.
type Webhook struct {
	// Kind is ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
	Kind, Name string
}

// CRD is a CRD of Karpenter, of any version.
type CRD struct {
	Name string
	// Stored are the versions in status.storedVersions, and Versions those in its spec.
	Stored, Versions []string
	// Converts reports whether a webhook converts its objects.
	Converts bool
	// Missing are the fields of the version's CRD that it does not have.
	Missing []string
	// Objects is how many there are, of a CRD that no supported version has; -1 if that is unknown.
	Objects int
}

// Autoscaler is a Deployment of the Cluster Autoscaler.
type Autoscaler struct {
	Namespace, Name string
	Replicas        int32
}

// otherControllers checks that no other controller, and nothing of an older version, interferes.
func otherControllers() Check {
	return Check{
		ID: "other-controllers",
		Why: "a second controller launches nodes for the same pods or terminates this one's; a webhook without its controller " +
			"rejects every write to NodePools, and an old stored version blocks upgrades of the CRDs",
		needs: []source{ofControllers, ofOthers},
		look:  lookAtOtherControllers,
	}
}

func lookAtOtherControllers(o Observed) (string, []Finding) {
	const looked = "Deployments of Karpenter and of the Cluster Autoscaler, webhooks, CRDs and nodes of older versions"
	var found []Finding
	for _, err := range []error{o.Controllers.Err, o.Autoscalers.Err, o.Webhooks.Err, o.CRDs.Err, o.OldNodes.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	if o.Uncompared != nil {
		found = append(found, Finding{
			Status: Unknown, Message: fmt.Sprintf("the CRDs were not compared with those of Karpenter %s: %v", o.Version, o.Uncompared),
			Fix: "run the command where the registry of Karpenter's charts can be reached: it is needed for a version that plumbline is not built with",
		})
	}
	found = append(found, o.secondController()...)
	found = append(found, o.othersName()...)
	for _, a := range o.Autoscalers.Of {
		if a.Replicas == 0 {
			continue
		}
		found = append(found, Finding{
			Status:  Warning,
			Message: fmt.Sprintf("the Cluster Autoscaler (deployment/%s in %s) runs, too: both launch nodes for a pod", a.Name, a.Namespace),
			Fix:     fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=0", a.Name, a.Namespace),
		})
	}
	if len(o.OldNodes.Of) > 0 {
		found = append(found, Finding{
			Status:  Warning,
			Message: "nodes are left from a version before 0.32, and no controller terminates them: " + some(o.OldNodes.Of),
			Fix:     "kubectl drain them, delete them, and terminate their instances",
		})
	}
	return looked, append(found, o.leftFromOlder()...)
}

// secondController returns the finding that several Deployments of Karpenter run. With different names of clusters each
// still manages all NodePools of this one.
func (o Observed) secondController() []Finding {
	var running []string
	var last Controller
	for _, c := range o.Controllers.Of {
		if c.Replicas > 0 {
			name := c.Environment["CLUSTER_NAME"]
			running = append(running, fmt.Sprintf("deployment/%s in %s (version %s, cluster %s)", c.Name, c.Namespace, c.Version, name))
			if last.Name == "" || name != o.Cluster {
				last = c // one with the name of another cluster, if there is one
			}
		}
	}
	if len(running) < 2 {
		return nil
	}
	return []Finding{{
		Status: Problem, Message: "several controllers of Karpenter run in this cluster: " + strings.Join(running, "; "),
		Fix: fmt.Sprintf("uninstall all but one; to stop one first: kubectl scale deployment %s -n %s --replicas=0", last.Name, last.Namespace),
	}}
}

// othersName returns the controllers that use the name of another cluster: each terminates the instances of that one.
func (o Observed) othersName() []Finding {
	var found []Finding
	for _, c := range o.Controllers.Of {
		name, plain := c.Environment["CLUSTER_NAME"]
		of := fmt.Sprintf("deployment/%s in %s", c.Name, c.Namespace)
		switch {
		case c.Replicas == 0 || name == o.Cluster:
		case !plain:
			found = append(found, Finding{Status: Unknown, Message: of + " has no plain value of CLUSTER_NAME: which instances it terminates is unknown"})
		default:
			found = append(found, Finding{
				Status: Problem, Message: fmt.Sprintf("%s has the name of another cluster, %s (CLUSTER_NAME): it terminates the instances of that one", of, name),
				Fix: "stop it: " + fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=0", c.Name, c.Namespace) +
					", then set settings.clusterName of the chart to " + o.Cluster,
			})
		}
	}
	return found
}

// withoutWebhooks is the first version without webhooks, and whose CRDs have only v1 (KPA website/content/en/docs/upgrading).
const withoutWebhooks = "1.1.0"

// leftFromOlder returns what older versions have left.
func (o Observed) leftFromOlder() []Finding {
	var found []Finding
	modern := o.Version != "" && !karpenter.Newer(withoutWebhooks, o.Version)
	for _, w := range o.Webhooks.Of {
		if modern {
			found = append(found, Finding{
				Status:  Problem,
				Message: fmt.Sprintf("%s/%s is left from an older version: Karpenter %s serves none, so requests fail", w.Kind, w.Name, o.Version),
				Fix:     fmt.Sprintf("kubectl delete %s %s", strings.ToLower(w.Kind), w.Name),
			})
		}
	}
	for _, crd := range o.CRDs.Of {
		switch {
		case legacy(crd.Name):
			found = append(found, leftCRD(crd))
		case modern && crd.Converts:
			found = append(found, Finding{
				Status:  Problem,
				Message: fmt.Sprintf("crd %s converts its objects by a webhook, which Karpenter %s does not serve", crd.Name, o.Version),
				Fix:     "install the CRD chart, karpenter-crd, of version " + o.Version,
			})
		}
		if len(crd.Missing) > 0 {
			found = append(found, Finding{
				Status: Problem,
				Message: fmt.Sprintf("crd %s is of another version than Karpenter %s, and the API server drops these fields: %s",
					crd.Name, o.Version, some(crd.Missing)),
				Fix: "install the CRD chart, karpenter-crd, of version " + o.Version,
			})
		}
		if lost := storedBefore(crd); modern && len(lost) > 0 {
			found = append(found, Finding{
				Status: Problem,
				Message: fmt.Sprintf("status.storedVersions of crd %s still contains %s: a CRD without that version is refused",
					crd.Name, strings.Join(lost, ", ")),
				Fix: "write each of its objects again, then: kubectl patch crd " + crd.Name +
					` --subresource=status --type=merge -p '{"status":{"storedVersions":["v1"]}}'`,
			})
		}
	}
	return found
}

// storedBefore returns the versions before v1 in which objects of a CRD may be stored.
func storedBefore(c CRD) []string {
	if !slices.Contains([]string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}, c.Name) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Stored), func(v string) bool { return v == "v1" })
}

// legacyCRDs are those of versions before 1.0.
var legacyCRDs = []string{"provisioners.karpenter.sh", "machines.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws"}

func legacy(name string) bool { return slices.Contains(legacyCRDs, name) }

func leftCRD(crd CRD) Finding {
	f := Finding{
		Status: Warning, Message: fmt.Sprintf("crd %s is left from a version before 1.0, without objects", crd.Name),
		Fix: "kubectl delete crd " + crd.Name,
	}
	if crd.Objects != 0 {
		f.Message = fmt.Sprintf("crd %s is left from a version before 1.0, and has objects that no controller manages", crd.Name)
		f.Fix = "check what they are for (kubectl get " + crd.Name + "), and delete them before the CRD"
	}
	return f
}

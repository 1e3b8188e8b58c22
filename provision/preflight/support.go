package preflight

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// support checks that the versions fit each other, and are supported.
func support() Check {
	return Check{
		ID: "support",
		Why: "a version of Karpenter that does not support the cluster's Kubernetes may launch nodes that do not join; " +
			"one without support gets no security fixes; a controller that is stuck launches no node, and looks healthy",
		needs: []source{ofAccount, ofControllers, ofPools, ofAddons, ofClaims, ofWork, ofInsights},
		look:  lookAtSupport,
	}
}

func lookAtSupport(o Observed) (string, []Finding) {
	looked := fmt.Sprintf("Karpenter %s, Kubernetes %s, whether the controller works, EKS insights and add-ons", o.Version, o.EKS.Of.Version)
	var found []Finding
	for _, err := range []error{o.Controllers.Err, o.EKS.Err, o.Addons.Err, o.Pools.Err, o.Insights.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	for _, a := range o.Addons.Of {
		if len(a.Issues) > 0 {
			found = append(found, Finding{
				Status: Problem, Message: fmt.Sprintf("EKS add-on %s %s is %s: %s", a.Name, a.Version, a.Status, strings.Join(a.Issues, "; ")),
				Fix: fmt.Sprintf("aws eks describe-addon --region %s --cluster-name %s --addon-name %s", o.Region, o.Cluster, a.Name),
			})
		}
	}
	found = append(append(found, o.insights()...), o.wedged()...)
	if o.Version == "" {
		return looked, append(found, Finding{Status: Unknown, Message: "the version of Karpenter is unknown", Fix: "give it with --version"})
	}
	return looked, append(found, o.version()...)
}

// insights returns what EKS has found about the cluster: of upgrade readiness, an error is what the next version of Kubernetes
// breaks.
func (o Observed) insights() []Finding {
	var found []Finding
	for _, i := range o.Insights.Of {
		f := Finding{
			Status:  Warning,
			Message: fmt.Sprintf("EKS insight %q (%s) is %s: %s", i.Name, i.Category, i.Status, i.Reason),
			Fix:     fmt.Sprintf("aws eks describe-insight --region %s --cluster-name %s --id %s", o.Region, o.Cluster, i.ID),
		}
		if i.Kubernetes != "" {
			f.Message = fmt.Sprintf("EKS insight %q (%s, Kubernetes %s) is %s: %s", i.Name, i.Category, i.Kubernetes, i.Status, i.Reason)
		}
		switch i.Status {
		case "ERROR":
			f.Status = Problem
		case "PASSING":
			continue
		}
		found = append(found, f)
	}
	return found
}

// version returns what is known about the version of Karpenter.
func (o Observed) version() []Finding {
	notice, err := karpenter.NoticeOf(o.Version, o.Now)
	if err != nil {
		return []Finding{{Status: Unknown, Message: err.Error()}}
	}
	var found []Finding
	upgrade := "plumbline upgrade prints the path to another version"
	if notice != nil {
		f := Finding{Status: Warning, Message: notice.Message, Fix: upgrade}
		if notice.Ended {
			f.Status = Problem
		}
		found = append(found, f)
	}
	if minor, known := minorOf(o.EKS.Of.Version); known {
		gap, err := karpenter.KubernetesGap(o.Version, minor)
		switch {
		case err != nil:
			found = append(found, Finding{Status: Unknown, Message: err.Error()})
		case gap != "":
			f := Finding{Status: Problem, Message: gap, Fix: upgrade}
			if strings.HasPrefix(gap, "unknown") { // of a fork, for example
				f.Status = Unknown
			}
			found = append(found, f)
		}
	}
	static := o.Pools.Err != nil
	for i := range o.Pools.Of {
		static = static || o.Pools.Of[i].Spec.Replicas != nil
	}
	defects, err := karpenter.Defects(o.Version, static)
	if err != nil {
		return append(found, Finding{Status: Unknown, Message: err.Error()})
	}
	for _, d := range defects {
		found = append(found, Finding{Status: Warning, Message: fmt.Sprintf("Karpenter %s: %s", o.Version, d), Fix: upgrade})
	}
	return found
}

// minorOf returns the minor version of Kubernetes, as in 1.36.
func minorOf(version string) (minor int, known bool) {
	_, text, _ := strings.Cut(version, ".")
	minor, err := strconv.Atoi(text)
	return minor, err == nil
}

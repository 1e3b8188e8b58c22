package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// ClassImages are the AMIs of an EC2NodeClass.
type ClassImages struct {
	Class string
	// Kubernetes is the version of the cluster, such as 1.36, and Next the one after it.
	Kubernetes, Next string
	// Now are the AMIs that Karpenter finds for the version of the cluster, and Later those for the next one. If there are none,
	// the error is a *resolve.EmptyError or *resolve.UnsupportedError.
	Now, Later Value[[]awsv1.AMI]
}

// images checks the AMIs of nodes.
func images() Check {
	return Check{
		ID: "images",
		Why: "with an alias or ID that AWS does not publish, no node is launched; with an alias that is not pinned, each release of AWS " +
			"replaces all nodes, at a time that you do not choose",
		needs: []source{ofAccount, ofClasses, ofPools, ofImages},
		look:  lookAtImages,
	}
}

func lookAtImages(o Observed) (string, []Finding) {
	const looked = "the AMIs that EC2NodeClasses select, for the Kubernetes version of the cluster and the next one"
	var found []Finding
	for _, err := range []error{o.Classes.Err, o.EKS.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	if len(found) > 0 {
		return looked, found
	}
	if len(o.Classes.Of) == 0 {
		return "no EC2NodeClass", nil
	}
	for i := range o.Classes.Of {
		if alias := o.Classes.Of[i].Alias(); alias != nil && alias.Version == "latest" {
			found = append(found, Finding{
				Status:  Warning,
				Message: "the alias of EC2NodeClass/" + o.Classes.Of[i].Name + " is not pinned (@latest): each release of AWS replaces its nodes",
				Fix:     "pin it in Git: amiSelectorTerms: [{alias: " + strings.ToLower(alias.Family) + "@vYYYYMMDD}]",
			})
		}
	}
	for _, c := range o.Images {
		found = append(found, c.judge()...)
	}
	if o.Pools.Err != nil {
		return looked, append(found, unread(o.Pools.Err)...)
	}
	return looked, append(found, o.architectures()...)
}

// none reports whether an error means that there is no AMI.
func none(err error) bool {
	var empty *resolve.EmptyError
	var unsupported *resolve.UnsupportedError
	return errors.As(err, &empty) || errors.As(err, &unsupported)
}

func (c ClassImages) judge() []Finding {
	fix := "correct spec.amiSelectorTerms of EC2NodeClass/" + c.Class
	switch {
	case none(c.Now.Err):
		return []Finding{{
			Status: Problem, Fix: fix,
			Message: fmt.Sprintf("EC2NodeClass/%s has no AMI for Kubernetes %s, and launches no node: %v", c.Class, c.Kubernetes, c.Now.Err),
		}}
	case c.Now.Err != nil:
		return unread(c.Now.Err)
	}
	var found []Finding
	for _, ami := range c.Now.Of {
		if ami.Deprecated {
			found = append(found, Finding{
				Status: Warning, Fix: fix,
				Message: fmt.Sprintf("AMI %s (%s) of EC2NodeClass/%s is deprecated: its owner may delete it", ami.ID, ami.Name, c.Class),
			})
		}
	}
	switch {
	case none(c.Later.Err):
		found = append(found, Finding{
			Status: Warning, Fix: fix + " before the control plane is upgraded",
			Message: fmt.Sprintf("EC2NodeClass/%s has no AMI for Kubernetes %s: after that upgrade it launches no node", c.Class, c.Next),
		})
	case c.Later.Err != nil:
		found = append(found, unread(c.Later.Err)...)
	}
	return found
}

// architectures returns the NodePools that allow only architectures for which their EC2NodeClass has no AMI.
func (o Observed) architectures() []Finding {
	var found []Finding
	for i := range o.Pools.Of {
		pool := &o.Pools.Of[i]
		ref := pool.Spec.Template.Spec.NodeClassRef
		at := slices.IndexFunc(o.Images, func(c ClassImages) bool { return ref != nil && c.Class == ref.Name && c.Now.Err == nil })
		if at < 0 {
			continue
		}
		for _, r := range pool.Spec.Template.Spec.Requirements {
			if r.Key != corev1.LabelArchStable || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			for _, arch := range r.Values {
				if !slices.ContainsFunc(o.Images[at].Now.Of, func(ami awsv1.AMI) bool { return runsOn(ami, arch) }) {
					found = append(found, Finding{
						Status:  Problem,
						Message: fmt.Sprintf("NodePool/%s allows %s, for which EC2NodeClass/%s has no AMI", pool.Name, arch, ref.Name),
						Fix:     "add an AMI for " + arch + " to spec.amiSelectorTerms, or remove it from the requirements of the NodePool",
					})
				}
			}
		}
	}
	return found
}

func runsOn(ami awsv1.AMI, arch string) bool {
	return !slices.ContainsFunc(ami.Requirements, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == corev1.LabelArchStable && r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, arch)
	})
}

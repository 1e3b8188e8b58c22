package awssim

import (
	"fmt"
	"slices"
	"strings"
)

// Left is what a cluster still has in the account: IDs (names of instance
// profiles), sorted. Its network, its roles and its queue are not counted.
type Left struct {
	Instances        []string `json:"instances"` // not terminated
	Interfaces       []string `json:"interfaces"`
	Volumes          []string `json:"volumes"`
	Attachments      []string `json:"attachments"` // <volume>:<instance>
	LaunchTemplates  []string `json:"launchTemplates"`
	InstanceProfiles []string `json:"instanceProfiles"`
}

// Empty says that nothing is left.
func (l Left) Empty() bool { return l.String() == "nothing" }

// String names what is left on one line: "2 instances (i-1, i-2), 1 volume (…)".
func (l Left) String() string {
	var parts []string
	for _, p := range []struct {
		noun string
		ids  []string
	}{
		{"instance", l.Instances},
		{"interface", l.Interfaces},
		{"volume", l.Volumes},
		{"attachment", l.Attachments},
		{"launch template", l.LaunchTemplates},
		{"instance profile", l.InstanceProfiles},
	} {
		if len(p.ids) == 0 {
			continue
		}
		plural := "s"
		if len(p.ids) == 1 {
			plural = ""
		}
		parts = append(parts, fmt.Sprintf("%d %s%s (%s)", len(p.ids), p.noun, plural, strings.Join(p.ids, ", ")))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Left returns what carries the cluster's tags, whether calls can see it yet or
// not.
func (s *Simulator) Left(clusterName string) Left {
	var left Left
	s.locked(func(a *account) { left = a.left(clusterName) })
	return left
}

// belongs says whether tags are those that Karpenter or the EBS CSI driver give
// to what they make for a cluster.
func belongs(tags map[string]string, clusterName string) bool {
	_, owned := tags["kubernetes.io/cluster/"+clusterName]
	return owned || tags["eks:eks-cluster-name"] == clusterName
}

func (a *account) left(clusterName string) Left {
	l := Left{
		Instances: []string{}, Interfaces: []string{}, Volumes: []string{},
		Attachments: []string{}, LaunchTemplates: []string{}, InstanceProfiles: []string{},
	}
	ofCluster := func(instanceID string) bool {
		i, ok := a.instances[instanceID]
		return ok && belongs(i.Tags, clusterName)
	}
	for _, i := range a.instances {
		if i.state != stateTerminated && belongs(i.Tags, clusterName) {
			l.Instances = append(l.Instances, i.ID)
		}
	}
	for _, n := range a.interfaces {
		if belongs(n.Tags, clusterName) || ofCluster(n.instanceID) {
			l.Interfaces = append(l.Interfaces, n.ID)
		}
	}
	for _, v := range a.volumes {
		attached := v.attachment != nil
		if belongs(v.Tags, clusterName) || attached && ofCluster(v.attachment.instanceID) {
			l.Volumes = append(l.Volumes, v.ID)
			if attached {
				l.Attachments = append(l.Attachments, v.ID+":"+v.attachment.instanceID)
			}
		}
	}
	for _, t := range a.templates {
		if belongs(t.Tags, clusterName) {
			l.LaunchTemplates = append(l.LaunchTemplates, t.ID)
		}
	}
	for _, p := range a.profiles {
		if belongs(p.Tags, clusterName) {
			l.InstanceProfiles = append(l.InstanceProfiles, p.name)
		}
	}
	for _, ids := range [][]string{l.Instances, l.Interfaces, l.Volumes, l.Attachments, l.LaunchTemplates, l.InstanceProfiles} {
		slices.Sort(ids)
	}
	return l
}

package awssim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/service/ec2"
)

// Left is what a cluster still has in the account: IDs (names of instance profiles), sorted, without its network, its
// roles and its queue.
type Left struct {
	Instances        []string `json:"instances"` // not terminated
	Interfaces       []string `json:"interfaces"`
	Volumes          []string `json:"volumes"`
	Attachments      []string `json:"attachments"` // <volume>:<instance>
	LaunchTemplates  []string `json:"launchTemplates"`
	InstanceProfiles []string `json:"instanceProfiles"`
}

// Empty reports whether nothing is left.
func (l Left) Empty() bool { return l.String() == "nothing" }

// String lists what is left on one line: "2 instances (i-1, i-2), 1 volume (…)".
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

// Left returns what has the cluster's tags, whether it is visible to calls yet or not.
func (s *Simulator) Left(clusterName string) Left {
	var left Left
	s.locked(func(a *account) { left = a.left(clusterName) })
	return left
}

// belongs reports whether tags are those that Karpenter or the EBS CSI driver set on what they create for a cluster. The
// instances of Auto Scaling groups are not Karpenter's.
func belongs(tags map[string]string, clusterName string) bool {
	if tags[scalingGroupTag] != "" {
		return false
	}
	_, owned := tags["kubernetes.io/cluster/"+clusterName]
	return owned || tags["eks:eks-cluster-name"] == clusterName
}

func (a *account) left(clusterName string) Left {
	ofCluster := func(instanceID string) bool {
		i, ok := a.instances[instanceID]
		return ok && belongs(i.Tags, clusterName)
	}
	ofVolume := func(v *volume) bool {
		return belongs(v.Tags, clusterName) || v.attachment != nil && ofCluster(v.attachment.instanceID)
	}
	return Left{
		Instances: idsOf(a.instances, func(i *instance) bool {
			return i.state != stateTerminated && belongs(i.Tags, clusterName)
		}, (*instance).id),
		Interfaces: idsOf(a.interfaces, func(n *networkInterface) bool {
			return belongs(n.Tags, clusterName) || ofCluster(n.instanceID)
		}, (*networkInterface).id),
		Volumes: idsOf(a.volumes, ofVolume, (*volume).id),
		Attachments: idsOf(a.volumes, func(v *volume) bool { return v.attachment != nil && ofVolume(v) },
			func(v *volume) string { return v.ID + ":" + v.attachment.instanceID }),
		LaunchTemplates: idsOf(a.templates, func(t *launchTemplate) bool {
			return belongs(t.Tags, clusterName)
		}, (*launchTemplate).id),
		InstanceProfiles: idsOf(a.profiles, func(p *instanceProfile) bool {
			return belongs(p.Tags, clusterName)
		}, func(p *instanceProfile) string { return p.name }),
	}
}

// Clear deletes a cluster's unattached volumes and interfaces, as a person would.
func (s *Simulator) Clear(clusterName string) error {
	var err error
	s.locked(func(a *account) {
		left := a.left(clusterName)
		for _, id := range left.Volumes {
			if a.volumes[id].attachment == nil {
				err = errors.Join(err, a.deleteFreeVolume(id))
			}
		}
		for _, id := range left.Interfaces {
			if n := a.interfaces[id]; !n.isAttached() {
				a.deleteInterface(n)
			}
		}
	})
	return err
}

// LeaveOf adds what Karpenter creates for an EC2NodeClass, as if it had not deleted it: a launch template, and an
// instance profile in the path of the class's UID.
func (s *Simulator) LeaveOf(clusterName, class, uid string) {
	s.locked(func(a *account) {
		tags := map[string]string{
			"kubernetes.io/cluster/" + clusterName: "owned", "eks:eks-cluster-name": clusterName, classTag: class,
		}
		t := &launchTemplate{resource: a.newResource("lt-", tags, 0), name: "karpenter.k8s.aws/" + uid, data: &ec2.RequestLaunchTemplateData{}, created: a.now}
		a.templates[t.ID] = t
		path, name := "/karpenter/"+a.options.Region+"/"+clusterName+"/"+uid+"/", clusterName+"_"+uid
		a.profiles[name] = &instanceProfile{resource: a.newResource("AIPA", tags, 0), name: name, path: path, arn: a.iamARN("instance-profile" + path + name), created: a.now}
	})
}

// ClearOf deletes the launch templates and instance profiles with the tag of an EC2NodeClass.
func (s *Simulator) ClearOf(clusterName, class string) {
	s.locked(func(a *account) {
		maps.DeleteFunc(a.templates, func(_ string, t *launchTemplate) bool {
			return belongs(t.Tags, clusterName) && t.Tags[classTag] == class
		})
		maps.DeleteFunc(a.profiles, func(_ string, p *instanceProfile) bool {
			return belongs(p.Tags, clusterName) && p.Tags[classTag] == class
		})
	})
}

// classTag is the tag with the EC2NodeClass.
const classTag = "karpenter.k8s.aws/ec2nodeclass"

// idsOf returns the IDs of those that are left, sorted; never nil, for the JSON encoding.
func idsOf[T any](all map[string]T, isLeft func(T) bool, id func(T) string) []string {
	ids := []string{}
	for _, t := range all {
		if isLeft(t) {
			ids = append(ids, id(t))
		}
	}
	slices.Sort(ids)
	return ids
}

package leftover

import (
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Living is what a cluster has whose things in AWS are in use.
type Living struct {
	// Classes are the names of the EC2NodeClasses, and UIDs are their UIDs.
	Classes, UIDs map[string]bool
	// Profiles are the names of instance profiles that an EC2NodeClass or a NodeClaim names.
	Profiles map[string]bool
	// Instances are the IDs of those that EC2 has not ended.
	Instances map[string]bool
}

// Found is something that is left, and what it is of.
type Found struct {
	cloud.Resource

	What string
}

// Deserted is what is left in a cluster that goes on: interfaces of nodes that are gone, launch templates and instance
// profiles of EC2NodeClasses that are gone. What does not say whose it is belongs to the living.
func Deserted(answers []cloud.Answer, living Living) (found []Found) {
	known := Known{Classes: living.Classes, Profiles: living.Profiles}
	for _, answer := range answers {
		for _, r := range answer.Resources {
			what, where := judge(r, known)
			if where == left && !living.has(r) {
				found = append(found, Found{r, what})
			}
		}
	}
	return found
}

// has says that something may be in use.
func (l Living) has(r cloud.Resource) bool {
	switch r.Kind {
	case cloud.KindNetworkInterface:
		return l.Instances[r.Tags[cniInstanceTag]]
	case cloud.KindLaunchTemplate:
		return r.Tags[classTag] == ""
	case cloud.KindInstanceProfile:
		uid := UIDOf(r.Name)
		return uid == "" || l.UIDs[uid]
	case cloud.KindInstance, cloud.KindVolume:
	}
	return true
}

// UIDOf is the UID of an EC2NodeClass in the path of its instance profile (karpenter-provider-aws
// pkg/providers/instanceprofile, FormatPath); empty where it has none.
func UIDOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) != 4 {
		return ""
	}
	return parts[3]
}

// InstanceOf is the instance that a network interface was made for; empty if nothing tells.
func InstanceOf(r cloud.Resource) string {
	if id := r.Tags[cniInstanceTag]; id != "" {
		return id
	}
	return r.Instance
}

// ClassOf is the name of the EC2NodeClass that something was made for; empty if nothing tells.
func ClassOf(r cloud.Resource) string { return r.Tags[classTag] }

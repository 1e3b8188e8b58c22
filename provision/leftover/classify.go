package leftover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// KeepTag is the tag of a volume that should stay; its value is ignored. After the cluster is deleted, nothing else
// shows that a volume was retained on purpose.
const KeepTag = "plumbline.dev/keep"

// place is the section of a Report to which a resource belongs.
type place int

const (
	notOurs place = iota // or it is deleted with its instance
	left
	kept
)

// The tags that tell what a resource belongs to.
const (
	poolTag  = "karpenter.sh/nodepool"
	classTag = "karpenter.k8s.aws/ec2nodeclass"
	// claimNameTag and claimNamespaceTag are set by the EBS CSI driver.
	claimNameTag, claimNamespaceTag = "kubernetes.io/created-for/pvc/name", "kubernetes.io/created-for/pvc/namespace"
	// cniInstanceTag is set by the VPC CNI plugin.
	cniInstanceTag = "node.k8s.amazonaws.com/instance_id"
)

// Known is what the cluster knows about the resources in AWS.
type Known struct {
	// Volumes are the cluster's PersistentVolumes by the ID of their EBS volume; nil if the cluster was not queried.
	Volumes map[string]Volume
	// Pools, Classes and Profiles are the names of the NodePools and EC2NodeClasses that stay, and of the latter's
	// instance profiles: their resources are kept.
	Pools, Classes, Profiles map[string]bool
	// Unprofiled is a NodeClaim that stays and whose instance profile is unknown: it may be any of them.
	Unprofiled string
	// Protected are the IDs of instances that plumbline protects from termination.
	Protected map[string]bool
}

// classify returns what a resource belongs to, and its section.
func classify(r cloud.Resource, known Known) (what string, where place) {
	pool, class := r.Tags[poolTag], r.Tags[classTag]
	switch r.Kind {
	case cloud.KindInstance:
		what = named("NodePool", pool)
		if known.Protected[r.ID] {
			what = join(what, "plumbline protects it from termination: aws ec2 modify-instance-attribute --instance-id "+r.ID+" --no-disable-api-termination")
		}
		return what, leftUnless(known.Pools[pool])
	case cloud.KindVolume:
		return judgeVolume(r, known.Volumes)
	case cloud.KindNetworkInterface:
		return judgeInterface(r)
	case cloud.KindLaunchTemplate:
		if class != "" {
			return r.Name + " of " + named("EC2NodeClass", class), leftUnless(known.Classes[class])
		}
		return r.Name, left
	case cloud.KindInstanceProfile:
		return "path " + r.Name, leftUnless(known.Profiles[r.ID])
	}
	return "", left
}

// leftUnless returns the section of a resource that is kept if its owner stays.
func leftUnless(stays bool) place {
	if stays {
		return kept
	}
	return left
}

// judgeVolume judges a volume. If it is attached to an instance that is not terminated, it is deleted with that, or is
// not Karpenter's.
func judgeVolume(r cloud.Resource, volumes map[string]Volume) (what string, where place) {
	if r.Alive || r.State == "deleted" {
		return "", notOurs
	}
	what = named("NodePool", r.Tags[poolTag])
	if name := r.Tags[claimNameTag]; name != "" {
		what = "PersistentVolumeClaim " + r.Tags[claimNamespaceTag] + "/" + name
	}
	volume, known := volumes[r.ID]
	if known {
		what = volume.String()
	}
	_, keep := r.Tags[KeepTag]
	if keep || known && volume.Retained {
		return what, kept
	}
	if r.Instance != "" {
		what = join(what, "attached to "+r.Instance+", which has ended")
	}
	return what, left
}

// judgeInterface judges a network interface. If an AWS service manages it, for example a load balancer, it is deleted
// with that.
func judgeInterface(r cloud.Resource) (what string, where place) {
	if r.OfService || r.Alive || r.State != "available" && r.Instance == "" {
		return "", notOurs
	}
	what = named("NodePool", r.Tags[poolTag])
	if node := r.Tags[cniInstanceTag]; node != "" {
		what = join(what, "of the VPC CNI plugin, for "+node)
	}
	if r.Instance != "" {
		what = join(what, "attached to "+r.Instance+", which has ended")
	}
	return what, left
}

// Volume is a PersistentVolume, or a pod that names an EBS volume itself.
type Volume struct {
	Name string
	// Pod is the namespace and name of such a pod; empty for a PersistentVolume.
	Pod string
	// Claim is the namespace and name of its claim; empty if it has none.
	Claim string
	// Retained reports whether its reclaim policy is Retain.
	Retained bool
}

// String returns what keeps the volume, and what to do if it should not stay.
func (v Volume) String() string {
	switch {
	case v.Pod != "":
		return fmt.Sprintf("pod %s, which names it", v.Pod)
	case v.Retained:
		return fmt.Sprintf("PersistentVolume %s, retained", v.Name)
	case v.Claim != "":
		return fmt.Sprintf("PersistentVolume %s of claim %s: delete the claim, or retain the volume", v.Name, v.Claim)
	}
	return fmt.Sprintf("PersistentVolume %s", v.Name)
}

// named returns KIND/NAME; empty if there is no name.
func named(kind, name string) string {
	if name == "" {
		return ""
	}
	return kind + "/" + name
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// Scope is what a user's command may delete of a cluster's leftovers.
type Scope struct {
	Cluster string
	// Instances reports whether instances may be terminated. Leftovers reports whether the rest may be deleted:
	// unattached volumes and interfaces, launch templates, instance profiles.
	Instances, Leftovers bool
}

// Deletion is what happens to each leftover.
type Deletion struct {
	// Delete should be deleted; Terminating are instances that EC2 is already terminating.
	Delete, Terminating []cloud.Resource
	// Spared stay, although their kind may be deleted.
	Spared []Spared

	// stillRunning reports whether an instance is left, or EC2 has not returned all.
	stillRunning bool
}

// Now returns those that can be deleted now: an instance needs its profile until EC2 has terminated it.
func (e Deletion) Now() (now []cloud.Resource) {
	for _, r := range e.Delete {
		if r.Kind != cloud.KindInstanceProfile || !e.stillRunning {
			now = append(now, r)
		}
	}
	return now
}

// Of returns what happens to a resource: whether it is deleted, otherwise why it stays.
func (e Deletion) Of(id string) (ends bool, spared string) {
	for _, s := range e.Spared {
		if s.ID == id {
			return false, s.Why
		}
	}
	return slices.ContainsFunc(e.Delete, func(r cloud.Resource) bool { return r.ID == id }), ""
}

// Spared is a resource that stays, and the reason.
type Spared struct {
	cloud.Resource

	Why string
}

// Deletable selects what may be deleted from AWS's responses: what is left, and whose tags name only this cluster.
// Instance profiles are listed without their tags, which must be checked before the deletion.
func Deletable(answers []cloud.Answer, known Known, scope Scope) (e Deletion) {
	var user string
	e.stillRunning, user = runningInstance(answers, known, scope)
	for _, answer := range answers {
		inScope := scope.Leftovers
		if answer.Kind == cloud.KindInstance {
			inScope = scope.Instances
		}
		if !inScope {
			continue
		}
		for _, r := range answer.Resources {
			if _, where := classify(r, known); where != left {
				continue
			}
			why := keepReason(r, known, scope.Cluster)
			if why == "" && r.Kind == cloud.KindInstanceProfile && user != "" {
				why = "instance " + user + " stays, and may use it"
			}
			switch {
			case why != "":
				e.Spared = append(e.Spared, Spared{r, why})
			case r.Kind == cloud.KindInstance && r.State == "shutting-down":
				e.Terminating = append(e.Terminating, r)
			default:
				e.Delete = append(e.Delete, r)
			}
		}
	}
	return e
}

// runningInstance reports whether an instance of the cluster is left, and names one that this scope does not terminate.
// Instances of NodePools that stay do not count: their profiles are known from the NodeClaim and the EC2NodeClass.
func runningInstance(answers []cloud.Answer, known Known, scope Scope) (one bool, stays string) {
	for _, answer := range answers {
		if answer.Kind != cloud.KindInstance {
			continue
		}
		one = one || answer.Err != nil
		for _, r := range answer.Resources {
			if _, where := classify(r, known); where != left {
				continue
			}
			one = true
			if stays == "" && (!scope.Instances || keepReason(r, known, scope.Cluster) != "") {
				stays = r.ID
			}
		}
	}
	return one, stays
}

// Attached returns the volumes that are attached to some of the instances, and that EC2 may keep when it terminates
// these.
func Attached(answers []cloud.Answer, instances []cloud.Resource) (volumes []cloud.Resource) {
	for _, answer := range answers {
		for _, r := range answer.Resources {
			if r.Kind == cloud.KindVolume && r.Alive && slices.ContainsFunc(instances, func(i cloud.Resource) bool { return i.ID == r.Instance }) {
				volumes = append(volumes, r)
			}
		}
	}
	return volumes
}

// keepReason returns why a resource is not deleted; empty if it is deleted.
func keepReason(r cloud.Resource, known Known, cluster string) string {
	volume, has := known.Volumes[r.ID]
	switch r.Kind {
	case cloud.KindVolume, cloud.KindNetworkInterface:
		if r.State != "available" {
			return "it is " + r.State
		}
	case cloud.KindInstanceProfile:
		if known.Unprofiled != "" {
			return "NodeClaim " + known.Unprofiled + " does not say which instance profile it has"
		}
		if len(r.Tags) == 0 {
			return ""
		}
	case cloud.KindInstance, cloud.KindLaunchTemplate:
	}
	if r.Kind == cloud.KindVolume && has {
		return fmt.Sprintf("PersistentVolume %s is in the cluster: delete its claim", volume.Name)
	}
	if err := r.Claimed(cluster); err != nil {
		return err.Error()
	}
	return ""
}

// Listed returns resources in one line, in the format of a Report.
func Listed(resources []cloud.Resource) string {
	var report Report
	for _, r := range resources {
		if last := len(report.Kinds) - 1; last < 0 || report.Kinds[last].Kind != r.Kind {
			report.Kinds = append(report.Kinds, Kind{Kind: r.Kind})
		}
		kind := &report.Kinds[len(report.Kinds)-1]
		kind.Left = append(kind.Left, Item{ID: r.ID})
	}
	return report.String()
}

// Living is what exists in a cluster whose resources in AWS are in use.
type Living struct {
	// Classes are the names of the EC2NodeClasses, and UIDs are their UIDs.
	Classes, UIDs map[string]bool
	// Profiles are the names of instance profiles that an EC2NodeClass or a NodeClaim references.
	Profiles map[string]bool
	// Instances are the IDs of those that are not terminated.
	Instances map[string]bool
}

// Found is a resource that is left, and what it belongs to.
type Found struct {
	cloud.Resource

	What string
}

// OfDeleted returns what is left in a cluster that keeps running: interfaces of deleted nodes, and launch templates and
// instance profiles of deleted EC2NodeClasses. Resources whose owner is unknown count as in use.
func OfDeleted(answers []cloud.Answer, living Living) (found []Found) {
	known := Known{Classes: living.Classes, Profiles: living.Profiles}
	for _, answer := range answers {
		for _, r := range answer.Resources {
			what, where := classify(r, known)
			if where == left && !living.has(r) {
				found = append(found, Found{r, what})
			}
		}
	}
	return found
}

// Unused returns the volumes that are left in a cluster that keeps running: no instance has them, nothing in the cluster
// uses them, and they were created before a time. A new one may not have its PersistentVolume yet.
func Unused(volumes []cloud.Resource, used map[string]Volume, before time.Time) (found []Found) {
	for _, r := range volumes {
		_, known := used[r.ID]
		what, where := classify(r, Known{Volumes: used})
		if !known && where == left && r.Created.Before(before) {
			found = append(found, Found{r, what})
		}
	}
	return found
}

// has reports whether a resource may be in use.
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

// UIDOf returns the UID of the EC2NodeClass in the path of its instance profile (karpenter-provider-aws
// pkg/providers/instanceprofile, FormatPath); empty if there is none.
func UIDOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) != 4 {
		return ""
	}
	return parts[3]
}

// InstanceOf returns the instance for which a network interface was created; empty if unknown.
func InstanceOf(r cloud.Resource) string {
	if id := r.Tags[cniInstanceTag]; id != "" {
		return id
	}
	return r.Instance
}

// ClassOf returns the name of the EC2NodeClass for which a resource was created; empty if unknown.
func ClassOf(r cloud.Resource) string { return r.Tags[classTag] }

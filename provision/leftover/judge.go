package leftover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// KeepTag is the tag of a volume that is to stay; its value is not looked at. Where the cluster
// is gone nothing else reports that a volume was retained on purpose.
const KeepTag = "plumbline.dev/keep"

// place is where something belongs in a Report.
type place int

const (
	notOurs place = iota // or it goes with its instance
	left
	kept
)

// The tags that say what something is of.
const (
	poolTag  = "karpenter.sh/nodepool"
	classTag = "karpenter.k8s.aws/ec2nodeclass"
	// claimNameTag and claimNamespaceTag are the EBS CSI driver's.
	claimNameTag, claimNamespaceTag = "kubernetes.io/created-for/pvc/name", "kubernetes.io/created-for/pvc/namespace"
	// cniInstanceTag is the VPC CNI plugin's.
	cniInstanceTag = "node.k8s.amazonaws.com/instance_id"
)

// Known is what the cluster says of what AWS has.
type Known struct {
	// Volumes are the cluster's PersistentVolumes by the ID of their EBS volume; nil if the
	// cluster was not asked.
	Volumes map[string]Volume
	// Pools, Classes and Profiles are the names of the NodePools and EC2NodeClasses that are to
	// stay, and of the instance profiles of the latter: what is theirs is kept.
	Pools, Classes, Profiles map[string]bool
	// Unprofiled is a NodeClaim that is to stay and does not say which instance profile its instance has: any
	// of them may be the one.
	Unprofiled string
}

// judge says what something is, and where it belongs.
func judge(r cloud.Resource, known Known) (what string, where place) {
	pool, class := r.Tags[poolTag], r.Tags[classTag]
	switch r.Kind {
	case cloud.KindInstance:
		return named("NodePool", pool), leftUnless(known.Pools[pool])
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

// leftUnless is where something belongs that is kept where its maker stays.
func leftUnless(stays bool) place {
	if stays {
		return kept
	}
	return left
}

// judgeVolume: what is attached to an instance that lives goes with that, or is not Karpenter's.
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

// judgeInterface: one that a service of AWS keeps, such as a load balancer, ends with that.
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

// Volume is a PersistentVolume, or a pod that names an EBS volume itself, with what reports whether that is to stay.
type Volume struct {
	Name string
	// Pod is the namespace and the name of such a pod; empty for a PersistentVolume.
	Pod string
	// Claim is the namespace and the name of its claim; empty if it has none.
	Claim string
	// Retained reports whether its reclaim policy is Retain.
	Retained bool
}

// String says what keeps the volume, and what to do where it is not to stay.
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

// named is KIND/NAME, or nothing.
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

// Scope is what a user's command may end of what is left of a cluster.
type Scope struct {
	Cluster string
	// Instances may be terminated, and Leftovers deleted: volumes and interfaces that are attached to
	// nothing, launch templates, instance profiles.
	Instances, Leftovers bool
}

// Ending is what becomes of what is left.
type Ending struct {
	// Ends are to be ended; Going are instances that EC2 is ending.
	Ends, Going []cloud.Resource
	// Spared stay, though they are of a kind that may be ended.
	Spared []Spared

	// runs reports whether an instance is left, or that EC2 has not said.
	runs bool
}

// Now are those that may be ended at once: an instance needs its profile until EC2 has ended it.
func (e Ending) Now() (now []cloud.Resource) {
	for _, r := range e.Ends {
		if r.Kind != cloud.KindInstanceProfile || !e.runs {
			now = append(now, r)
		}
	}
	return now
}

// Of says what becomes of one of them: whether it is to be ended, or else why it stays.
func (e Ending) Of(id string) (ends bool, spared string) {
	for _, s := range e.Spared {
		if s.ID == id {
			return false, s.Why
		}
	}
	return slices.ContainsFunc(e.Ends, func(r cloud.Resource) bool { return r.ID == id }), ""
}

// Spared is something that stays, and why.
type Spared struct {
	cloud.Resource

	Why string
}

// Ends judges what of AWS's answers may be ended: what is left, and by its tags of this cluster only. An
// instance profile is listed without its tags, which are to be looked at when it is deleted.
func Ends(answers []cloud.Answer, known Known, scope Scope) (e Ending) {
	var user string
	e.runs, user = runs(answers, known, scope)
	for _, answer := range answers {
		inScope := scope.Leftovers
		if answer.Kind == cloud.KindInstance {
			inScope = scope.Instances
		}
		if !inScope {
			continue
		}
		for _, r := range answer.Resources {
			if _, where := judge(r, known); where != left {
				continue
			}
			why := spares(r, known, scope.Cluster)
			if why == "" && r.Kind == cloud.KindInstanceProfile && user != "" {
				why = "instance " + user + " stays, and may use it"
			}
			switch {
			case why != "":
				e.Spared = append(e.Spared, Spared{r, why})
			case r.Kind == cloud.KindInstance && r.State == "shutting-down":
				e.Going = append(e.Going, r)
			default:
				e.Ends = append(e.Ends, r)
			}
		}
	}
	return e
}

// runs reports whether an instance of the cluster is left, and names one that this scope does not end. One of a
// NodePool that stays does not count: its profile is known by its NodeClaim and its EC2NodeClass.
func runs(answers []cloud.Answer, known Known, scope Scope) (one bool, stays string) {
	for _, answer := range answers {
		if answer.Kind != cloud.KindInstance {
			continue
		}
		one = one || answer.Err != nil
		for _, r := range answer.Resources {
			if _, where := judge(r, known); where != left {
				continue
			}
			one = true
			if stays == "" && (!scope.Instances || spares(r, known, scope.Cluster) != "") {
				stays = r.ID
			}
		}
	}
	return one, stays
}

// Attached are the volumes that are attached to some of the instances, and that EC2 may leave when these end.
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

// spares says why something is not ended; empty if it is.
func spares(r cloud.Resource, known Known, cluster string) string {
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

// Listed is what there is on one line, as a Report's.
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

// has reports whether something may be in use.
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
// pkg/providers/instanceprofile, FormatPath); empty if it has none.
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

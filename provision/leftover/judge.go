package leftover

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// KeepTag is the tag of a volume that is to stay; its value is not looked at. Where the cluster
// is gone nothing else says that a volume was retained on purpose.
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
	// Volumes are the cluster's PersistentVolumes by the ID of their EBS volume; nil where the
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

// Volume is a PersistentVolume, or a pod that names an EBS volume itself, as far as it says whether that is to stay.
type Volume struct {
	Name string
	// Pod is the namespace and the name of such a pod; empty for a PersistentVolume.
	Pod string
	// Claim is the namespace and the name of its claim; empty where it has none.
	Claim string
	// Retained says that its reclaim policy is Retain.
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

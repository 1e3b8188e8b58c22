package cloud

import (
	"cmp"
	"slices"
	"strings"
)

// nameTags are the tags whose value is a cluster's name. With another value than a cluster's name each of them says
// that it is another's.
var nameTags = []string{
	nameTag,     // Karpenter since v1, and EKS Auto Mode
	templateTag, // Karpenter before v1
	cniTag,      // the VPC CNI plugin
	// the EBS CSI driver with --k8s-tag-cluster-id, and the in-tree volume plugin before it
	// (aws-ebs-csi-driver pkg/driver/constants.go, KubernetesClusterTag)
	"KubernetesCluster",
	// EKS, what its managed node groups launch, and their launch templates (EKS user guide, Launch templates)
	"eks:cluster-name",
	// EKS, the cluster's security group and its instances (EKS user guide, Tagging your resources for billing)
	"aws:eks:cluster-name",
	// eksctl (pkg/apis/eksctl.io/v1alpha5/types.go, ClusterNameTag and OldClusterNameTag)
	"alpha.eksctl.io/cluster-name",
	"eksctl.cluster.k8s.io/v1alpha1/cluster-name",
}

// ClaimError says that something is not of this cluster only, by its tags, and was left as it is.
type ClaimError struct {
	Cluster string
	// Others are the clusters that have a tag on it; none where only this one's are missing.
	Others []string
	// Needs are the tags that it would have to have.
	Needs string
}

func (e *ClaimError) Error() string {
	if len(e.Others) == 0 {
		return "it does not have the tags " + e.Needs
	}
	return "it has a tag of cluster " + strings.Join(e.Others, ", ") + ", too"
}

// Claimed says whether something is of this cluster only; a *ClaimError where it is not.
func (r Resource) Claimed(cluster string) error {
	ours, others := r.Claim(cluster)
	if ours && len(others) == 0 {
		return nil
	}
	needs := clusterTagPrefix + cluster + "=" + clusterTagValue
	if r.Kind == KindInstance {
		needs += " and " + nodePoolTag
	}
	return &ClaimError{Cluster: cluster, Others: others, Needs: needs}
}

// Claim says by its tags whether something is of a cluster's Karpenter, EBS CSI driver or VPC CNI plugin, as
// manifests/iam-policy-teardown.json has it, and which other clusters have a tag on it, whatever that says. It
// has to be owned by the cluster, or an interface of its CNI plugin. An instance has to have a NodePool
// besides: a managed node group's have the same tag of the cluster.
func (r Resource) Claim(cluster string) (ours bool, others []string) {
	for key, value := range r.Tags {
		name, isCluster := strings.CutPrefix(key, clusterTagPrefix)
		switch {
		case isCluster && name == cluster:
			ours = ours || value == clusterTagValue
		case isCluster:
			others = append(others, name)
		case slices.Contains(nameTags, key) && value != cluster:
			others = append(others, cmp.Or(value, `""`))
		case key == cniTag && r.Kind == KindNetworkInterface:
			ours = true
		}
	}
	if r.Kind == KindInstance && (r.Tags[nodePoolTag] == "" || r.Tags[nodeGroupTag] != "") {
		ours = false
	}
	return ours, distinct(slices.Clip(others))
}

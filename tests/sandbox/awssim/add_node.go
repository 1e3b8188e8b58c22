package awssim

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
)

// AddNode launches an instance with the tags that the Karpenter of an EKS cluster sets, for a cluster whose Karpenter
// does not run here, and returns its ID. The instance joins that cluster's endpoint, and no other.
func (s *Simulator) AddNode(clusterName, nodePool string) (string, error) {
	var id string
	var err error
	s.locked(func(a *account) { id, err = a.addNode(clusterName, nodePool) })
	if err != nil {
		return "", fmt.Errorf("adding a node of cluster %s: %w", clusterName, err)
	}
	return id, nil
}

func (a *account) addNode(clusterName, nodePool string) (string, error) {
	c, err := a.findCluster(clusterName)
	if err != nil {
		return "", err
	}
	const instanceType = "m5.large"
	arch := a.types[instanceType].Arch
	images := slices.DeleteFunc(catalog.Images(), func(i catalog.Image) bool { return a.images[i.ID].arch != arch })
	settings := fmt.Sprintf("[settings.kubernetes]\ncluster-name = %q\napi-server = %q\n", c.Name, c.Endpoint)
	spec := launchSpec{
		imageID: images[0].ID, instanceType: instanceType, subnetID: c.subnets[0], capacityType: onDemand,
		groups: []string{c.group}, userData: base64.StdEncoding.EncodeToString([]byte(settings)),
		tags: map[string]map[string]string{"instance": {
			"kubernetes.io/cluster/" + c.Name: "owned", "eks:eks-cluster-name": c.Name,
			"karpenter.sh/nodepool": nodePool, "karpenter.k8s.aws/ec2nodeclass": "default",
		}},
	}
	if err := cmp.Or(a.check(spec), a.capacity(spec)); err != nil {
		return "", err
	}
	return a.start(spec, 0).ID, nil
}

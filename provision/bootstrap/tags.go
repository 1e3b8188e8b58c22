package bootstrap

import "fmt"

// DiscoveryTag is the tag by which the EC2NodeClasses of Karpenter's getting-started guide select subnets and security groups.
// Its value is the name of the cluster.
const DiscoveryTag = "karpenter.sh/discovery"

// Taggable is a subnet or a security group.
type Taggable struct {
	ID   string
	Tags map[string]string
}

// DiscoveryTags returns the tags of subnets and security groups: the one by which EC2NodeClasses select them, and the one by
// which a bootstrap knows that it has set both.
func (s Spec) DiscoveryTags() map[string]string {
	return map[string]string{DiscoveryTag: s.Cluster.Name, Tag: s.Stack()}
}

// Untagged returns the IDs of those that need the tags, in their order. One that another tool has tagged for the cluster needs
// none, and stays that tool's. Errors: one is tagged for another cluster, whose tag is never replaced.
func (s Spec) Untagged(all []Taggable) ([]string, error) {
	var ids []string
	for _, one := range all {
		cluster, discoverable := one.Tags[DiscoveryTag]
		stack, marked := one.Tags[Tag]
		switch {
		case discoverable && cluster != s.Cluster.Name:
			return nil, fmt.Errorf("%s has the tag %s=%s, which is not changed: without --discovery-tags, let EC2NodeClasses select "+
				"subnets and security groups by ID, or by a tag of your own", one.ID, DiscoveryTag, cluster)
		case marked && stack != s.Stack():
			return nil, fmt.Errorf("%s has the tag %s=%s, so that plumbline bootstrap has tagged it for another cluster: without "+
				"--discovery-tags, let EC2NodeClasses select subnets and security groups by ID", one.ID, Tag, stack)
		case !discoverable:
			ids = append(ids, one.ID)
		}
	}
	return ids, nil
}

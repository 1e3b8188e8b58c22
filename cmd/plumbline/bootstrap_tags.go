package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/nodegroup"
)

// discoveryTagsOf returns the tags of subnets and security groups.
func (b *bootstrapCommand) discoveryTagsOf() map[string]string {
	return bootstrap.Spec{Cluster: iam.Cluster{Name: b.cluster}}.DiscoveryTags()
}

// tagStep tags the subnets and security groups of nodes, so that EC2NodeClasses can select them by a tag. Errors: one is tagged
// for another cluster.
func (b *bootstrapCommand) tagStep(ctx context.Context, is cloud.Cluster, spec bootstrap.Spec) (bootstrapStep, error) {
	step := bootstrapStep{title: "discovery tags"}
	if !b.discoveryTags {
		return step, nil
	}
	all, err := b.network(ctx, is)
	if err != nil {
		return step, err
	}
	ids, err := spec.Untagged(all)
	if err != nil || len(ids) == 0 {
		return step, err
	}
	step.plan = fmt.Sprintf("set %s=%s on %s", bootstrap.DiscoveryTag, b.cluster, strings.Join(ids, ", "))
	step.act = func(ctx context.Context) error { return b.aws.Tag(ctx, ids, spec.DiscoveryTags()) }
	return step, nil
}

// network reads the subnets and security groups of the cluster's nodes. Errors: there are none.
func (b *bootstrapCommand) network(ctx context.Context, is cloud.Cluster) ([]bootstrap.Taggable, error) {
	nodeGroups, err := b.aws.NodeGroups(ctx, b.cluster)
	if err != nil {
		return nil, err
	}
	wanted := nodegroup.SubnetsOf(nodeGroups, nil)
	if len(wanted) == 0 {
		wanted = is.Subnets
	}
	subnets, err := b.aws.SubnetsByID(ctx, wanted)
	if err != nil {
		return nil, err
	}
	groups, err := b.aws.SecurityGroupsByID(ctx, nodegroup.SecurityGroupsOf(nodeGroups, is.ClusterSecurityGroup))
	if err != nil {
		return nil, err
	}
	var all []bootstrap.Taggable
	for _, id := range nodegroup.SubnetsOf(nodeGroups, subnets) {
		all = append(all, bootstrap.Taggable{ID: id, Tags: subnets[id].Tags})
	}
	if len(all) == 0 || len(groups) == 0 {
		return nil, fmt.Errorf("EKS cluster %s: AWS reports no subnet or no security group of its nodes, so that there is nothing to tag", b.cluster)
	}
	for _, id := range nodegroup.SecurityGroupsOf(nodeGroups, is.ClusterSecurityGroup) {
		all = append(all, bootstrap.Taggable{ID: id, Tags: groups[id].Tags})
	}
	return all, nil
}

package main

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// find takes the names from the flags, or from a NodeSync, and what the cluster says of its volumes
// and NodeClaims.
func (v *verification) find(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) error {
	switch {
	case v.cluster == "" && v.region != "":
		return errors.New("--region goes with --cluster: the region of a NodeSync is known")
	case v.cluster != "" && len(args) > 0:
		return errors.New("a NodeSync and --cluster do not go together")
	case v.cluster != "" && v.region == "":
		return errors.New("--cluster needs --region: give the region of the cluster")
	case v.cluster != "" && *kubeconfig.KubeConfig == "" && *kubeconfig.Context == "":
		return nil // only AWS is asked
	}
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return err
	}
	if v.cluster == "" {
		sync, err := c.oneNodeSync(ctx, args)
		if err != nil {
			return err
		}
		if err := v.take(sync); err != nil {
			return err
		}
	}
	return v.takeCluster(ctx, c)
}

// oneNodeSync is the one that is named, or one of the namespace that knows its cluster: they all
// have the same.
func (c *cluster) oneNodeSync(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	if len(args) > 0 {
		return c.nodeSync(ctx, args[0])
	}
	list, err := c.listed(ctx, false)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Status.Karpenter != nil {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no NodeSync in namespace %s says the cluster's name: give --cluster and --region", c.in(ctx))
}

// take takes the names of a NodeSync, and the account that its daemon has confirmed.
func (v *verification) take(sync *v1alpha1.NodeSync) error {
	k := sync.Status.Karpenter
	if k == nil || k.Cluster == "" || k.Region == "" {
		return fmt.Errorf("nodesync/%s does not say the cluster's name yet: give --cluster and --region", sync.Name)
	}
	v.cluster, v.region = k.Cluster, k.Region
	if v.account == "" {
		v.account = cloud.AccountOf(k.ClusterARN)
	}
	v.here = k.ClusterARN != "" // AWS has confirmed it
	return nil
}

// takeCluster takes what the API server says.
func (v *verification) takeCluster(ctx context.Context, c *cluster) (err error) {
	if v.authority, err = certificateAuthority(c.config); err != nil {
		return err
	}
	if v.authority == nil {
		v.authority = []byte{} // it is asked for, and is not known
	}
	if v.nodes, err = c.providerIDs(ctx); err != nil {
		return err
	}
	v.volumes = c.volumes
	return nil
}

// providerIDs are the instances of NodeClaims.
func (c *cluster) providerIDs(ctx context.Context) (ids []string, err error) {
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	for i := range list.Items {
		if id := list.Items[i].Status.ProviderID; id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

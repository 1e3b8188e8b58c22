package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
)

// AWS is what a migration reads and changes in AWS.
type AWS interface {
	NodeGroupSizes(ctx context.Context, cluster string) ([]cloud.NodeGroup, error)
	AutoScalingGroups(ctx context.Context, tagKeys, names []string) ([]cloud.AutoScalingGroup, error)
	FargateProfiles(ctx context.Context, cluster string) ([]cloud.FargateProfile, error)
	Addons(ctx context.Context, cluster string) ([]cloud.Addon, error)
	AddonSchema(ctx context.Context, name, version string) (string, error)
	Instances(ctx context.Context, q cloud.Query) ([]cloud.Instance, error)
	Update(ctx context.Context, cluster, nodeGroup, addon, id string) (cloud.EKSUpdate, error)

	SetNodeGroupSizes(ctx context.Context, cluster, name string, s cloud.Sizes) (id string, err error)
	UpdateAddon(ctx context.Context, cluster, name, values string) (id string, err error)
	TagEKS(ctx context.Context, arn, key, value string) error
	SetGroupSizes(ctx context.Context, name string, s cloud.Sizes) error
	TagGroup(ctx context.Context, name, key, value string) error
	TerminateInGroup(ctx context.Context, instance string) error
}

// Mover reads facts, and performs steps.
type Mover struct {
	Cluster client.Client
	AWS     AWS
	// Name is that of the EKS cluster, and Plumbline are the labels of plumbline's Deployment.
	Name      string
	Plumbline map[string]string
	// Test tests that Karpenter launches and terminates nodes.
	Test func(ctx context.Context) error
	// Say is called with each progress, in words.
	Say func(what string)
	// Poll is how often a state that is waited for is read, and Timeout how long it may stay the same.
	Poll, Timeout time.Duration
	Now           func() time.Time
	// schemas are the schemas of add-ons that were read, by name and version.
	schemas map[string]string
}

// Read reads the facts of a migration.
func (m *Mover) Read(ctx context.Context) (*migrate.Facts, error) {
	f, err := m.readCluster(ctx)
	if err != nil {
		return nil, err
	}
	if f.NodeGroups, err = m.AWS.NodeGroupSizes(ctx, m.Name); err != nil {
		return nil, err
	}
	keys, names := migrate.TagKeys(m.Name, f.Autoscalers())
	for _, g := range f.NodeGroups {
		names = append(names, g.AutoScalingGroups...)
	}
	if f.Scaling, err = m.AWS.AutoScalingGroups(ctx, keys, names); err != nil {
		return nil, err
	}
	if f.Fargate, err = m.AWS.FargateProfiles(ctx, m.Name); err != nil {
		return nil, err
	}
	if f.Addons, err = m.AWS.Addons(ctx, m.Name); err != nil {
		return nil, err
	}
	f.Affinity, err = m.affinities(ctx, f.Addons)
	return f, err
}

// affinities returns where the configuration values of each add-on have its affinity.
func (m *Mover) affinities(ctx context.Context, addons []cloud.Addon) (map[string][]string, error) {
	if m.schemas == nil {
		m.schemas = map[string]string{}
	}
	paths := map[string][]string{}
	for _, addon := range addons {
		key := addon.Name + " " + addon.Version
		text, known := m.schemas[key]
		if !known {
			var err error
			if text, err = m.AWS.AddonSchema(ctx, addon.Name, addon.Version); err != nil {
				return nil, err
			}
			m.schemas[key] = text
		}
		path, err := migrate.AffinityPath(text)
		if err != nil {
			return nil, fmt.Errorf("add-on %s %s: %w", addon.Name, addon.Version, err)
		}
		if len(path) > 0 {
			paths[addon.Name] = path
		}
	}
	return paths, nil
}

// readCluster reads what Kubernetes has.
func (m *Mover) readCluster(ctx context.Context) (*migrate.Facts, error) {
	nodes, pods, deployments := &corev1.NodeList{}, &corev1.PodList{}, &appsv1.DeploymentList{}
	sets, replicas := &appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}
	for _, one := range []struct {
		list client.ObjectList
		what string
	}{{nodes, "Nodes"}, {pods, "Pods"}, {deployments, "Deployments"}, {sets, "StatefulSets"}, {replicas, "ReplicaSets"}} {
		if err := m.Cluster.List(ctx, one.list); err != nil {
			return nil, fmt.Errorf("list %s: %w", one.what, err)
		}
	}
	keys, err := m.poolKeys(ctx)
	return &migrate.Facts{
		Cluster: m.Name, Plumbline: m.Plumbline, Nodes: nodes.Items, Pods: pods.Items, Deployments: deployments.Items,
		StatefulSets: sets.Items, ReplicaSets: replicas.Items, PoolKeys: keys,
	}, err
}

// poolKeys returns the keys of the labels and requirements of all NodePools. Errors: Karpenter is not installed.
func (m *Mover) poolKeys(ctx context.Context) ([]string, error) {
	pools := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList"}}
	if err := m.Cluster.List(ctx, pools); err != nil {
		if apimeta.IsNoMatchError(err) {
			return nil, errors.New("the cluster does not serve NodePools: install Karpenter first (plumbline bootstrap, or plumbline init)")
		}
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	var keys []string
	for i := range pools.Items {
		labels, _, _ := unstructured.NestedMap(pools.Items[i].Object, "spec", "template", "metadata", "labels")
		for key := range labels {
			keys = append(keys, key)
		}
		requirements, _, _ := unstructured.NestedSlice(pools.Items[i].Object, "spec", "template", "spec", "requirements")
		for _, r := range requirements {
			if fields, ok := r.(map[string]any); ok {
				key, _ := fields["key"].(string)
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

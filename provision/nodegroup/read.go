package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/images"
)

// AWS is what Read queries.
type AWS interface {
	images.AWS
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	NodeGroups(ctx context.Context, cluster string) ([]cloud.NodeGroup, error)
	SubnetsByID(ctx context.Context, ids []string) (map[string]cloud.Subnet, error)
	Sizes(ctx context.Context, types []string) (map[string]cloud.Size, error)
	Queue(ctx context.Context, name string) (cloud.Queue, error)
}

// Reader queries AWS. It only reads.
type Reader struct {
	AWS AWS
	// Region is that of the cluster.
	Region string
	// Wait returns at a time, or when the context is done: queries for AMIs have a budget.
	Wait func(ctx context.Context, until time.Time) error
	Now  func() time.Time
}

// Read returns what exists around a cluster, with what the definitions of some of its node groups need; of none: those for all
// pods.
func (r *Reader) Read(ctx context.Context, cluster string, from []string) (Found, error) {
	eks, err := r.AWS.Cluster(ctx, cluster)
	if err != nil {
		return Found{}, err
	}
	found := Found{
		Cluster: cluster, Region: r.Region, Kubernetes: eks.Version, SecurityGroup: eks.ClusterSecurityGroup,
		Pins: map[string]string{}, Images: map[string]resolve.Image{},
	}
	if found.Groups, err = r.AWS.NodeGroups(ctx, cluster); err != nil {
		return found, err
	}
	var subnets, types []string
	for i := range found.Groups {
		subnets, types = append(subnets, found.Groups[i].Subnets...), append(types, found.Groups[i].InstanceTypes...)
	}
	if len(found.Groups) == 0 {
		subnets = eks.Subnets
	}
	if found.Subnets, err = r.AWS.SubnetsByID(ctx, subnets); err != nil {
		return found, err
	}
	if found.Sizes, err = r.AWS.Sizes(ctx, types); err != nil {
		return found, err
	}
	if err := r.queue(ctx, &found); err != nil {
		return found, err
	}
	return found, r.amis(ctx, &found, from)
}

// queue finds the queue of the cluster's name, which Karpenter's getting-started guide creates.
func (r *Reader) queue(ctx context.Context, found *Found) error {
	queue, err := r.AWS.Queue(ctx, found.Cluster)
	var missing *cloud.NotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	found.InterruptionQueue = queue.Name
	return err
}

// amis finds the newest releases of the families that are needed, and the AMIs that launch templates name.
func (r *Reader) amis(ctx context.Context, found *Found, from []string) error {
	reader := &images.Reader{AWS: r.AWS, Kubernetes: found.Kubernetes, Wait: r.Wait, Now: r.Now}
	needed := []string{}
	if len(from) == 0 {
		needed = append(needed, "al2023", "bottlerocket")
		other := func(g cloud.NodeGroup) bool { return familyOf(g.AMIType) != "bottlerocket" }
		if len(found.Groups) == 0 || slices.ContainsFunc(found.Groups, other) {
			needed = needed[:1]
		}
	}
	var ids []string
	for i := range found.Groups {
		g := &found.Groups[i]
		if !slices.Contains(from, g.Name) {
			continue
		}
		if g.Template != nil && g.Template.ImageID != "" {
			ids = append(ids, g.Template.ImageID)
		} else if family := familyOf(g.AMIType); family != "" && !slices.Contains(needed, family) && !strings.HasPrefix(family, "windows") {
			needed = append(needed, family)
		}
	}
	for _, family := range needed {
		alias, err := reader.Pin(ctx, family)
		var empty *resolve.EmptyError
		var unsupported *resolve.UnsupportedError
		if err != nil && !errors.As(err, &empty) && !errors.As(err, &unsupported) {
			return fmt.Errorf("the newest release of %s for Kubernetes %s: %w", family, found.Kubernetes, err)
		}
		found.Pins[family] = alias
	}
	return r.named(ctx, found, ids)
}

// named reads the AMIs that launch templates name. One that does not exist any more has no name.
func (r *Reader) named(ctx context.Context, found *Found, ids []string) error {
	for _, id := range ids {
		images, err := r.AWS.Images(ctx, &awsv1.EC2NodeClass{
			ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{ID: id}}},
		}, found.Kubernetes)
		var empty *resolve.EmptyError
		if err != nil && !errors.As(err, &empty) {
			return fmt.Errorf("AMI %s: %w", id, err)
		}
		if len(images) > 0 {
			found.Images[id] = images[0]
		}
	}
	return nil
}

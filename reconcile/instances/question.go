package instances

import (
	"context"
	"errors"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
	"github.com/plumbline-dev/plumbline/render"
)

// question is one comparison: what AWS is asked, and what its answer is compared with.
type question struct {
	cloud func(ctx context.Context) (Cloud, error)
	// cluster reads VolumeAttachments and Nodes.
	cluster client.Reader
	fleet   Fleet
	query   cloud.Query
	// classes are the EC2NodeClasses of the NodeSync's NodeClaims, and rolling is that of a Look.
	classes map[string]*plan.Object
	rolling bool
	// living is what the cluster's things in AWS may be in use by, and profiles says that there may be instance
	// profiles that no living thing names.
	living   leftover.Living
	profiles bool
	// before is what the last answer has shown as left; it is read only.
	before seen
	// now is when the question was made. left are the Nodes and instances that are terminating and that no NodeClaim has,
	// and leftBefore those of the last answer.
	now              time.Time
	left, leftBefore []termination.Left
	// had is what the cluster is known to have had.
	had had
}

// question is what is compared now: what lives was read before AWS is asked, so that an instance
// which comes meanwhile has not settled.
func (l *Look) question() *question {
	q := &question{
		cloud: l.Cloud, cluster: l.Reader, query: cloud.Query{Cluster: l.Cluster, AllPools: true}, classes: map[string]*plan.Object{}, rolling: l.Rolling,
		fleet: Fleet{Cluster: l.Cluster, Claims: l.Live.NodeClaims, Pools: map[string]bool{}, Others: map[string]bool{}, Classes: map[string]Class{}, Settled: l.Now.Add(-min(settles, l.Every))},
	}
	for i := range l.Set.Objects {
		if ref := l.Set.Objects[i].Ref; ref.Kind == render.NodePool {
			q.fleet.Pools[ref.Name] = true
		}
	}
	for ref := range l.Live.Objects {
		if ref.Kind == render.NodePool && !q.fleet.Pools[ref.Name] {
			q.fleet.Others[ref.Name] = true
		}
	}
	for i := range q.fleet.Claims {
		c := &q.fleet.Claims[i]
		if !q.fleet.Pools[c.Pool] || c.ProviderID == "" {
			continue
		}
		q.query.ProviderIDs = append(q.query.ProviderIDs, c.ProviderID)
		if class := l.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}]; class != nil {
			q.classes[c.Class] = class
		}
	}
	q.live(l.Live)
	return q
}

// compare asks EC2 for the instances, and compares them; and for what nodes have left attached.
func (q *question) compare(ctx context.Context) (*v1alpha1.InstanceDrift, error) {
	aws, err := q.cloud(ctx)
	if err != nil {
		return nil, err
	}
	for name, live := range q.classes {
		class := new(awsv1.EC2NodeClass)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, class) != nil {
			continue // of one that this plumbline cannot read only Karpenter's own tags are compared
		}
		said := Class{Tags: class.Spec.Tags, Hash: plan.HashesOf(live.GetAnnotations()).Class()}
		if said.Groups, err = q.groups(ctx, aws, class); err != nil {
			return nil, err
		}
		q.fleet.Classes[name] = said
	}
	if q.fleet.Shown, err = aws.Fleet(ctx, q.query); err != nil {
		return nil, err
	}
	q.fleet.Had = q.had.instances
	found := q.fleet.Differences()
	orphans := orphaned(found)
	q.left = q.shuttingDown()
	nodes, err := q.nodes(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, nodes...)
	for i := range found {
		found[i].Message = finding.Bounded(found[i].Message, maxMessage)
	}
	volumes, err := q.volumes(ctx, aws)
	if err != nil {
		return nil, err
	}
	left, err := q.behind(ctx, aws)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.InstanceDrift{Count: int32(len(found)), Instances: found, Orphaned: orphans, Volumes: volumes, Left: left}, nil
}

// groups are the security groups that a class comes to; nil where they are not compared, or where
// there are none, which Karpenter says of the class.
func (q *question) groups(ctx context.Context, aws Cloud, class *awsv1.EC2NodeClass) ([]string, error) {
	if q.rolling {
		return nil, nil
	}
	found, err := aws.SecurityGroups(ctx, class)
	if errors.As(err, new(*resolve.EmptyError)) {
		return nil, nil
	}
	return found, err
}

// shuttingDown are the instances of the NodeSync's pools that EC2 is shutting down, and that no NodeClaim has.
func (q *question) shuttingDown() (left []termination.Left) {
	claimed := map[string]bool{}
	for i := range q.fleet.Claims {
		claimed[q.fleet.Claims[i].ProviderID] = true
	}
	for i := range q.fleet.Shown {
		n := &q.fleet.Shown[i]
		if n.State != "shutting-down" || n.Pool == "" || q.fleet.Others[n.Pool] || claimed[n.ProviderID()] {
			continue
		}
		since := q.now
		for _, before := range q.leftBefore {
			if before.Kind == termination.Instance && before.Name == n.ID {
				since = before.Since
			}
		}
		left = append(left, termination.Left{Kind: termination.Instance, Name: n.ID, Instance: n.ID, Pool: n.Pool, Since: since})
	}
	return left
}

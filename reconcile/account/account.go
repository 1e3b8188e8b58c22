// Package account asks AWS about the cluster's account and its instances.
//
// Step reports whether EC2 can be queried and is the account that this cluster's nodes are in, and whether a controller runs here under
// another cluster's name. Resolution finds what the selectors of EC2NodeClasses resolve to, where a Plan cannot tell without it which
// nodes a change replaces. An InstanceAsker compares EC2's instances with NodeClaims and definitions in the background, within the
// budget of queries that only serve a report: edited tags or security groups, an instance that was terminated by hand, one without
// a NodeClaim, volumes that were left attached. Nodes that Karpenter has found Drifted are not its concern.
//
// Nothing is changed in AWS or the cluster, and no reconcile waits for an answer longer than its patience.
package account

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Step is the question about the account of one reconcile of one NodeSync.
type Step struct {
	finding.Findings

	// Cloud returns the client of a region. It makes no request.
	Cloud Dialer
	// CertificateAuthority is the bundle, in PEM, that the API server's certificate is
	// checked against.
	CertificateAuthority []byte
	View                 *cluster.View
	Memory               *Memory

	// Name and Region are the EKS cluster's, as Git or the first install has them.
	Name, Region string
	// ClusterARN is the EKS cluster that was verified to be this one; empty before.
	ClusterARN string
	// Generation is that of the NodeSync: an answer is for one.
	Generation int64
	Claims     []plan.NodeClaim
	Removals   []v1alpha1.Removal

	Now time.Time
	// Interval is the least time between two questions to EC2, Retry when a bad answer is
	// asked for again, and Patience how long an answer is waited for.
	Interval, Retry, Patience time.Duration
}

// Memory is what AWS said last about the cluster that plumbline.yaml names. The zero value
// has not asked.
type Memory struct {
	at           time.Time
	name, region string
	generation   int64
	// arn of the EKS cluster of that name, and its version of Kubernetes; empty if AWS did not
	// say.
	arn, kubernetes string
	verdict         cloud.Verdict
	// foreign are the NodeClaims, by name, that were reported not to be EC2's.
	foreign map[string]bool
}

// goodFor is how long a good answer about the account holds.
const goodFor = 10 * time.Minute

// Verify reports whether EC2 can be asked, and is the account that this cluster's nodes are
// in. AWS is asked where its last answer is too old, or was about something else.
func (s *Step) Verify(ctx context.Context) cloud.Verdict {
	good, interval := s.Memory.verdict.OK, s.Retry
	if good {
		interval = goodFor
		if aboutToEnd(s.Removals) {
			interval = s.Interval
		}
	}
	switch {
	case !s.known(interval):
		s.ask(ctx)
	case !good:
		s.WakeBy(s.Memory.at.Add(interval))
	}
	return s.Memory.verdict
}

// Confirm is Verify before what must not be done on an old answer: a good one is asked for
// again after the interval of questions, since the account may have become another one.
func (s *Step) Confirm(ctx context.Context) cloud.Verdict {
	if s.Memory.verdict.OK && !s.known(s.Interval) {
		s.ask(ctx)
	}
	return s.Memory.verdict
}

// Note records which EKS cluster was verified to be the one that is installed, where the
// last answer is about that.
func (m *Memory) Note(k *v1alpha1.KarpenterStatus, verdict *cloud.Verdict) {
	if verdict != nil && verdict.OK && m.arn != "" && m.name == k.Cluster && m.region == k.Region {
		k.ClusterARN = m.arn
	}
}

// Kubernetes is the version of the EKS cluster (1.36); empty if AWS did not say.
func (m *Memory) Kubernetes() string { return m.kubernetes }

// aboutToEnd reports whether a removal may delete its NodeClaims in this reconcile, or
// count its instances as ended: neither can be taken back, so it is not done on
// an old answer. An account that has become another one shows no instance.
func aboutToEnd(removals []v1alpha1.Removal) bool {
	phases := []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud}
	return slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return slices.Contains(phases, r.Phase) })
}

// known reports whether the last answer is about this cluster, and not older than an
// interval. An answer about another name says nothing.
func (s *Step) known(interval time.Duration) bool {
	last := s.Memory
	return last.generation == s.Generation && last.name == s.Name && last.region == s.Region && !finding.Due(s.Now, last.at, interval)
}

// ask asks AWS about the account.
func (s *Step) ask(ctx context.Context) {
	s.tellForeign()
	last := s.Memory
	last.at, last.name, last.region, last.generation, last.arn, last.kubernetes = s.Now, s.Name, s.Region, s.Generation, "", ""
	verdict, err := s.answer(ctx)
	if err != nil {
		verdict = cloud.Verdict{Reason: fault.Classify(err).Reason, Message: err.Error()}
	}
	if last.verdict = verdict; !verdict.OK {
		s.WakeBy(s.Now.Add(s.Retry))
	}
}

func (s *Step) answer(ctx context.Context) (cloud.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	aws, err := s.Cloud(ctx, s.Region)
	if err != nil {
		return cloud.Verdict{}, err
	}
	found, err := aws.Cluster(ctx, s.Name)
	if err != nil {
		return cloud.Verdict{}, err
	}
	s.Memory.arn, s.Memory.kubernetes = found.ARN, found.Version
	// Another cluster is one whether EC2 answers or not.
	if verdict := cloud.Verify(found, s.CertificateAuthority, nil, nil); !verdict.OK {
		return verdict, nil
	}
	ids := providerIDs(s.Claims)
	visible, err := aws.Instances(ctx, cloud.Query{Cluster: s.Name, ProviderIDs: ids})
	if err != nil && len(visible) == 0 {
		return cloud.Verdict{}, err
	}
	return cloud.Verify(found, s.CertificateAuthority, ids, visible), nil
}

// Cloud is what is asked of AWS: what this room asks, and what others do that share its clients.
type Cloud interface {
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)

	ResolutionCloud
	InstanceCloud

	TerminationProtected(ctx context.Context, providerID string) (bool, error)
	Catalog(ctx context.Context) (*offers.Catalog, error)
}

// Clouds are the clients in use, by region; it has none at first.
type Clouds struct {
	// Dial makes the client of a region. It makes no request.
	Dial Dialer

	mu sync.Mutex
	of map[string]Cloud
}

// Dialer returns the client of a region.
type Dialer func(ctx context.Context, region string) (Cloud, error)

// in returns the client of a region, dialled the first time.
func (c *Clouds) in(ctx context.Context, region string) (Cloud, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.of[region]; ok {
		return known, nil
	}
	client, err := c.Dial(ctx, region)
	if err != nil {
		return nil, err
	}
	if c.of == nil {
		c.of = map[string]Cloud{}
	}
	c.of[region] = client
	return client, nil
}

// maxPatience is the longest that AWS may hold up a reconcile: a push or a drift
// must not wait for a cloud that does not answer.
const maxPatience = 15 * time.Second

// Patience is how long one of a reconcile's two questions may take, that about the account
// and that about removals, given how long a reconcile may take.
func Patience(timeout time.Duration) time.Duration { return min(timeout, maxPatience) / 2 }

// Within returns the clients, whose answers about instances are waited for no longer than
// patience.
func (c *Clouds) Within(patience time.Duration) Dialer {
	return func(ctx context.Context, region string) (Cloud, error) {
		client, err := c.in(ctx, region)
		if err != nil {
			return nil, err
		}
		return impatient{Cloud: client, patience: patience}, nil
	}
}

type impatient struct {
	Cloud
	patience time.Duration
}

func (c impatient) Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	return c.Cloud.Instances(ctx, query)
}

// maxProviderIDs bounds the question whether live instances can be seen: a few
// tell an account as well as all.
const maxProviderIDs = 50

// providerIDs are some of those that live. A cache lists in no order; the same
// world makes the same question, and the same words about its answer.
func providerIDs(claims []plan.NodeClaim) []string {
	var ids []string
	for _, claim := range claims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil && !claim.Deleting {
			ids = append(ids, claim.ProviderID)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxProviderIDs)]
}

// tellForeign reports, once, which NodeClaims EC2 cannot be asked about.
func (s *Step) tellForeign() {
	var fresh []string
	foreign := map[string]bool{}
	for _, claim := range s.Claims {
		if _, _, err := cloud.ParseProviderID(claim.ProviderID); err == nil || claim.ProviderID == "" {
			continue
		}
		foreign[claim.Name] = true
		if !s.Memory.foreign[claim.Name] {
			fresh = append(fresh, fmt.Sprintf("NodeClaim/%s of NodePool/%s (%s)", claim.Name, claim.Pool, claim.ProviderID))
		}
	}
	s.Memory.foreign = foreign
	if len(fresh) == 0 {
		return
	}
	slices.Sort(fresh)
	s.Warn(v1alpha1.ReasonUnknownProviderID, finding.Some(fresh)+": not an instance of EC2, which cannot report whether it is terminated: a removal of its pool is not verified by itself")
}

// Collides looks for Karpenter's controller where the verdict is that this
// is not the cluster of that name: it terminates the other cluster's instances
// while it runs, whichever tool installed it. A cluster that was verified before under
// another ARN is another matter: then plumbline's own role has changed accounts.
func (s *Step) Collides(ctx context.Context, verdict *cloud.Verdict) (emergency string, err error) {
	if verdict == nil || verdict.Reason != cloud.ReasonAuthorityDiffers || s.otherAccount() {
		return "", nil
	}
	found := &appsv1.DeploymentList{}
	if err := s.View.Cached.List(ctx, found, client.MatchingLabels(cluster.ControllerLabels())); err != nil {
		return "", fmt.Errorf("find Karpenter's Deployments: %w", err)
	}
	for i := range found.Items {
		deployment := &found.Items[i]
		if !cluster.Running(deployment) {
			continue
		}
		containers, err := s.View.Containers(ctx, deployment)
		if err != nil {
			return "", err
		}
		if name := upgrade.ClusterName(containers); name == s.Name || name == "" {
			return collision(deployment, s.Name, verdict.Message), nil
		}
	}
	return "", nil
}

// collision is the message of a controller that runs under another cluster's name.
func collision(deployment *appsv1.Deployment, cluster, why string) string {
	return fmt.Sprintf("Karpenter runs here as another cluster, %s, and terminates its instances: kubectl scale deployment %s -n %s --replicas=0; "+
		"then correct cluster.name, or the account of plumbline's role if that is wrong: %s", cluster, deployment.Name, deployment.Namespace, why)
}

// otherAccount reports whether AWS has shown another EKS cluster than the one that was
// verified to be this one.
func (s *Step) otherAccount() bool {
	return s.ClusterARN != "" && s.Memory.arn != "" && s.ClusterARN != s.Memory.arn
}

// Package account queries AWS about the cluster's account and its instances.
//
// Step reports whether EC2 can be queried and is the account that this cluster's nodes are in, and whether a controller
// runs here under another cluster's name. Resolution finds what the selectors of EC2NodeClasses resolve to, if a Plan
// needs it to decide which nodes a change replaces. An InstanceChecker compares EC2's instances with NodeClaims and
// definitions in the background, within the budget for queries that only serve a report: edited tags or security
// groups, an instance that was terminated by hand, one without a NodeClaim, volumes that were left attached. It ignores
// nodes that Karpenter reports as Drifted. An AMIChecker finds out in the background whether AWS publishes an AMI for
// the alias or SSM parameter of an EC2NodeClass that Karpenter does not resolve.
//
// Conflict decides whether another controller uses this cluster's name, and a Response carries out
// spec.guard.onIdentityConflict: it may protect instances from termination, and scale Karpenter's controller.
//
// Apart from a Response, the package changes nothing in AWS or the cluster. No reconcile waits for an answer longer than
// its timeout.
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

// Step verifies the account in one reconcile of one NodeSync.
type Step struct {
	finding.Findings

	// Cloud returns the client of a region. It makes no request.
	Cloud Dialer
	// CertificateAuthority is the bundle, in PEM, that the API server's certificate is
	// verified against.
	CertificateAuthority []byte
	View                 *cluster.View
	Memory               *Memory

	// Name and Region identify the EKS cluster, as Git or the first install defines them.
	Name, Region string
	// ClusterARN is the ARN of the EKS cluster that was verified to be this one; empty before.
	ClusterARN string
	// Generation is the NodeSync's generation: an answer is valid for one generation.
	Generation int64
	Claims     []plan.NodeClaim
	Removals   []v1alpha1.Removal

	Now time.Time
	// Interval is the minimum time between two queries to EC2, Retry is the time after which a failed query is repeated,
	// and QueryTimeout is the timeout of a query.
	Interval, Retry, QueryTimeout time.Duration
}

// Memory is the last answer of AWS about the cluster that plumbline.yaml names. The zero value contains no answer.
type Memory struct {
	at           time.Time
	name, region string
	generation   int64
	// arn is the ARN of the EKS cluster with that name, and kubernetes its version; both are empty if AWS did not report
	// them.
	arn, kubernetes string
	// endpoint is that of its API server; empty if AWS did not report it.
	endpoint string
	verdict  cloud.Verdict
	// foreign are the names of the NodeClaims that were reported because they are not EC2 instances.
	foreign map[string]bool
}

// goodFor is how long a successful answer about the account is valid.
const goodFor = 10 * time.Minute

// Verify reports whether EC2 can be queried, and is the account that this cluster's nodes are
// in. It queries AWS if the last answer is too old, or was about another cluster.
func (s *Step) Verify(ctx context.Context) cloud.Verdict {
	good, interval := s.Memory.verdict.OK, s.Retry
	if good {
		interval = goodFor
		if mayTerminate(s.Removals) {
			interval = s.Interval
		}
	}
	switch {
	case !s.known(interval):
		s.query(ctx)
	case !good:
		s.WakeBy(s.Memory.at.Add(interval))
	}
	return s.Memory.verdict
}

// Confirm is Verify for actions that must not rely on an old answer: it repeats a successful query after
// Interval, since the credentials may now belong to another account.
func (s *Step) Confirm(ctx context.Context) cloud.Verdict {
	if s.Memory.verdict.OK && !s.known(s.Interval) {
		s.query(ctx)
	}
	return s.Memory.verdict
}

// Note records which EKS cluster was verified to be the one that is installed, if the last answer is about that
// cluster.
func (m *Memory) Note(k *v1alpha1.KarpenterStatus, verdict *cloud.Verdict) {
	if verdict != nil && verdict.OK && m.arn != "" && m.name == k.Cluster && m.region == k.Region {
		k.ClusterARN = m.arn
	}
}

// Kubernetes returns the version of the EKS cluster (1.36); empty if AWS did not report it.
func (m *Memory) Kubernetes() string { return m.kubernetes }

// Endpoint returns the endpoint of the EKS cluster's API server; empty if AWS did not report it.
func (m *Memory) Endpoint() string { return m.endpoint }

// mayTerminate reports whether a removal may delete its NodeClaims in this reconcile, or count its instances as
// terminated. Neither can be reverted, so neither relies on an old answer: an account that is no longer the right one
// contains none of the instances.
func mayTerminate(removals []v1alpha1.Removal) bool {
	phases := []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud}
	return slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return slices.Contains(phases, r.Phase) })
}

// known reports whether the last answer is about this cluster, and not older than an
// interval. An answer about another name does not count.
func (s *Step) known(interval time.Duration) bool {
	last := s.Memory
	return last.generation == s.Generation && last.name == s.Name && last.region == s.Region && !finding.Due(s.Now, last.at, interval)
}

// query queries AWS about the account.
func (s *Step) query(ctx context.Context) {
	s.reportForeign()
	last := s.Memory
	last.at, last.name, last.region, last.generation, last.arn, last.kubernetes = s.Now, s.Name, s.Region, s.Generation, "", ""
	last.endpoint = ""
	verdict, err := s.answer(ctx)
	if err != nil {
		verdict = cloud.Verdict{Reason: fault.Classify(err).Reason, Message: err.Error()}
	}
	if last.verdict = verdict; !verdict.OK {
		s.WakeBy(s.Now.Add(s.Retry))
	}
}

func (s *Step) answer(ctx context.Context) (cloud.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, s.QueryTimeout)
	defer cancel()
	aws, err := s.Cloud(ctx, s.Region)
	if err != nil {
		return cloud.Verdict{}, err
	}
	found, err := aws.Cluster(ctx, s.Name)
	if err != nil {
		return cloud.Verdict{}, err
	}
	s.Memory.arn, s.Memory.kubernetes, s.Memory.endpoint = found.ARN, found.Version, found.Endpoint
	// A cluster with another authority is the wrong one, whether EC2 responds or not.
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

// Cloud is the AWS client interface of this package and of those that share its clients.
type Cloud interface {
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)

	ResolutionCloud
	ImageCloud
	InstanceCloud
	KeyCloud

	TerminationProtected(ctx context.Context, providerID string) (bool, error)
	Grant(ctx context.Context, cluster string, account cloud.ServiceAccount) (cloud.Grant, error)
	TrailCloud
	SetTerminationProtection(ctx context.Context, id string, on bool) error
	Catalog(ctx context.Context) (*offers.Catalog, error)
}

// Clouds are the clients in use, by region. Each is created when it is first needed.
type Clouds struct {
	// Dial creates the client of a region. It makes no request.
	Dial Dialer

	mu sync.Mutex
	of map[string]Cloud
}

// maxRegions limits the clients that are kept: AWS has fewer regions, but a file may name others.
const maxRegions = 64

// Dialer returns the client of a region.
type Dialer func(ctx context.Context, region string) (Cloud, error)

// in returns the client of a region, and creates it the first time.
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
	if c.of == nil || len(c.of) >= maxRegions {
		c.of = map[string]Cloud{}
	}
	c.of[region] = client
	return client, nil
}

// maxQueryTimeout is the longest that AWS may delay a reconcile: a push or a drift must not wait for a cloud that does
// not respond.
const maxQueryTimeout = 15 * time.Second

// QueryTimeout returns the timeout of each of a reconcile's two queries, one about the account
// and one about removals, given the timeout of the reconcile.
func QueryTimeout(timeout time.Duration) time.Duration { return min(timeout, maxQueryTimeout) / 2 }

// Within returns a Dialer whose clients wait for answers about instances no longer than
// timeout.
func (c *Clouds) Within(patience time.Duration) Dialer {
	return func(ctx context.Context, region string) (Cloud, error) {
		client, err := c.in(ctx, region)
		if err != nil {
			return nil, err
		}
		return withTimeout{Cloud: client, timeout: patience}, nil
	}
}

type withTimeout struct {
	Cloud
	timeout time.Duration
}

func (c withTimeout) Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.Cloud.Instances(ctx, query)
}

// maxProviderIDs limits the query that checks whether live instances are visible: a few
// identify an account as well as all do.
const maxProviderIDs = 50

// providerIDs returns some of the live provider IDs. A cache lists in random order; sorting results in the same query,
// and the same message about its answer, for the same state.
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

// reportForeign reports, once, the NodeClaims that cannot be queried in EC2.
func (s *Step) reportForeign() {
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
	s.Warn(v1alpha1.ReasonUnknownProviderID, finding.Some(fresh)+": not an EC2 instance, so EC2 cannot report whether it is terminated: the removal of its NodePool needs a manual check")
}

// Collides looks for Karpenter's controller if the verdict is that this is not the
// cluster of that name: while it runs, it terminates the other cluster's instances,
// whichever tool installed it. It ignores a cluster that was verified before under
// another ARN: in that case plumbline's own role has changed accounts.
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

// collision returns the message about a controller that runs under another cluster's name.
func collision(deployment *appsv1.Deployment, cluster, why string) string {
	return fmt.Sprintf("Karpenter runs here with the name of another cluster, %s, and terminates that cluster's instances: kubectl scale deployment %s -n %s --replicas=0; "+
		"then correct cluster.name, or the account of plumbline's role if that is wrong: %s", cluster, deployment.Name, deployment.Namespace, why)
}

// otherAccount reports whether AWS has returned an EKS cluster other than the one that was
// verified to be this one.
func (s *Step) otherAccount() bool {
	return s.ClusterARN != "" && s.Memory.arn != "" && s.ClusterARN != s.Memory.arn
}

// Package account says whether EC2 can be asked, and is the account that this cluster's
// nodes are in. The cluster's name in Git and the NodeClaims go in; a verdict comes out, and
// whether a controller runs here under another cluster's name. It changes nothing in AWS or
// the cluster, sets no condition, and keeps no pass waiting for longer than its patience.
package account

import (
	"context"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Step is the question about the account of one pass over one NodeSync.
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
	// arn of the EKS cluster of that name, and its version of Kubernetes; empty where AWS did not
	// say.
	arn, kubernetes string
	verdict         cloud.Verdict
	// foreign are the NodeClaims, by name, that were reported not to be EC2's.
	foreign map[string]bool
}

// goodFor is how long a good answer about the account holds.
const goodFor = 10 * time.Minute

// Verify says whether EC2 can be asked, and is the account that this cluster's nodes are
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

// Kubernetes is the version of the EKS cluster (1.36); empty where AWS did not say.
func (m *Memory) Kubernetes() string { return m.kubernetes }

// aboutToEnd says whether a removal may delete its NodeClaims in this pass, or
// count its instances as ended: neither can be taken back, so it is not done on
// an old answer. An account that has become another one shows no instance.
func aboutToEnd(removals []v1alpha1.Removal) bool {
	phases := []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud}
	return slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return slices.Contains(phases, r.Phase) })
}

// known says whether the last answer is about this cluster, and not older than an
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

package reconcile

import (
	"context"
	"encoding/pem"
	"errors"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/account"
)

var errUnreachable = errors.New("no route")

// fakeCloud is an account, or the error that it returns.
type fakeCloud struct {
	account.Cloud
	err     error
	cluster cloud.Cluster
	asked   int
	// patience is how long the callers would have waited, in the order of the queries; 0: for ever.
	patience []time.Duration
	// silence is why EC2's answer is incomplete.
	silence error
	// running are the account's instances.
	running []cloud.Instance
	// publishes reports whether AWS publishes AMIs for a version of Kubernetes.
	publishes func(version string) bool
}

func (f *fakeCloud) Cluster(ctx context.Context, _ string) (cloud.Cluster, error) {
	f.asked++
	f.note(ctx)
	return f.cluster, f.err
}

func (f *fakeCloud) note(ctx context.Context) {
	patience := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	f.patience = append(f.patience, patience)
}

func (f *fakeCloud) Instances(ctx context.Context, q cloud.Query) ([]cloud.Instance, error) {
	f.note(ctx)
	var found []cloud.Instance
	for _, i := range f.running {
		if f.answers(q, i) {
			found = append(found, i)
		}
	}
	if f.silence != nil {
		return found, f.silence
	}
	return found, f.err
}

// answers reports whether an instance, whose tags name the account's cluster, matches a query.
func (f *fakeCloud) answers(q cloud.Query, i cloud.Instance) bool {
	byTags := q.Cluster == f.cluster.Name && i.Pool != "" && (slices.Contains(q.Pools, i.Pool) || q.AllPools && !i.Gone())
	return byTags || slices.Contains(q.ProviderIDs, i.ProviderID())
}

// pemOf returns a certificate with some content.
func pemOf(der string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})
}

// Grant returns a role that may do everything.
func (*fakeCloud) Grant(context.Context, string, cloud.ServiceAccount) (cloud.Grant, error) {
	const arn = "arn:aws:iam::111122223333:role/karpenter"
	return cloud.Grant{RoleARN: arn, Role: cloud.Role{ARN: arn, Policies: []cloud.RolePolicy{{
		Name: "all", Text: `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`,
	}}}}, nil
}

func (*fakeCloud) TerminationProtected(context.Context, string) (bool, error) { return false, nil }
func (*fakeCloud) Trail(context.Context, string, time.Time, time.Time, int) ([]cloud.TrailCall, error) {
	return nil, &cloud.DeniedError{Action: "cloudtrail:LookupEvents", Resource: "*"}
}

func (*fakeCloud) SetTerminationProtection(context.Context, string, bool) error { return nil }
func (*fakeCloud) UserData(context.Context, string) (string, error)             { return "", nil }

func (*fakeCloud) Catalog(context.Context) (*offers.Catalog, error) {
	return nil, errors.New("no instance types")
}

func (*fakeCloud) AttachedVolumes(context.Context, string) ([]cloud.Resource, error) { return nil, nil }

func (*fakeCloud) LeftBehind(context.Context, string, bool) ([]cloud.Answer, error) { return nil, nil }

func (f *fakeCloud) AMIs(_ context.Context, class *awsv1.EC2NodeClass, version string) ([]awsv1.AMI, error) {
	if !f.publishes(version) {
		return nil, &resolve.EmptyError{What: "AMI", Field: "amiSelectorTerms", Class: class.Name}
	}
	return []awsv1.AMI{{ID: "ami-1"}}, nil
}

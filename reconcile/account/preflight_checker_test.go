package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/preflight"
)

// roleReader has a role with one policy, or an error.
type roleReader struct {
	policy string
	err    error
	reads  int
}

func (r *roleReader) read(_ context.Context, cluster string, of cloud.ServiceAccount) (cloud.Grant, error) {
	r.reads++
	const arn = "arn:aws:iam::111122223333:role/karpenter"
	if cluster != "prod" || of.Name != "karpenter" {
		return cloud.Grant{}, errors.New("another cluster or ServiceAccount")
	}
	return cloud.Grant{RoleARN: arn, Role: cloud.Role{ARN: arn, Policies: []cloud.RolePolicy{{Name: "own", Text: r.policy}}}}, r.err
}

// examined looks every minute for a time.
func examined(ctx context.Context, p *PreflightChecker, r *roleReader, during time.Duration) (found []preflight.Finding, known bool) {
	o := preflight.Observed{Cluster: "prod", Region: "eu-west-1", Version: "1.15.0"}
	o.Controllers.Of = []preflight.Controller{{Name: "karpenter", Replicas: 1, Environment: map[string]string{"CLUSTER_NAME": "prod"}}}
	o.Classes.Of = []awsv1.EC2NodeClass{{Spec: awsv1.EC2NodeClassSpec{Role: "nodes"}}}
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Minute) { //nolint:forbidigo // the clock is synctest's
		found, known = p.See(ctx, PreflightLook{
			Grant: r.read, Account: func(context.Context) cloud.ServiceAccount { return cloud.ServiceAccount{Name: "karpenter"} },
			Observed: o, Now: time.Now(),
		})
		synctest.Wait()
	}
	return found, known
}

const (
	allowsAll = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`
	// deniesOne allows everything but the termination of instances.
	deniesOne = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","NotAction":"ec2:TerminateInstances","Resource":"*"}}`
)

// TestPreflightChecker: the role is read once an hour; a missing permission is found, and no longer within an hour after it was
// added. A denied or incomplete answer, and what is not evaluated, are unknown and find nothing.
func TestPreflightChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := &PreflightChecker{}, &roleReader{policy: allowsAll}
		found, known := examined(t.Context(), p, r, 24*time.Hour)
		if len(found) > 0 || !known || r.reads != 24 {
			t.Errorf("in a day at rest: %v, known %v, %d reads", found, known, r.reads)
		}
		r.policy = deniesOne
		found, known = examined(t.Context(), p, r, 62*time.Minute)
		if len(found) != 1 || !known || !strings.Contains(found[0].Message, "ec2:TerminateInstances") || found[0].Fix == "" {
			t.Errorf("a missing permission: %+v, known %v", found, known)
		}
		r.policy = allowsAll
		if found, known = examined(t.Context(), p, r, 62*time.Minute); len(found) > 0 || !known {
			t.Errorf("corrected: %+v, known %v", found, known)
		}
		r.policy, r.err = deniesOne, &cloud.DeniedError{Action: "iam:GetRolePolicy"}
		if found, known = examined(t.Context(), p, r, 62*time.Minute); len(found) > 0 || known {
			t.Errorf("denied: %+v, known %v", found, known)
		}
		r.policy, r.err = "{", nil
		if found, _ = examined(t.Context(), p, r, 62*time.Minute); len(found) > 0 {
			t.Errorf("a policy that cannot be parsed: %+v", found)
		}
	})
}

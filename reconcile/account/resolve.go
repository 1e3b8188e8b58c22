package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// ResolutionCloud is the AWS client of a Resolution. It reuses AWS's responses of the last minutes.
type ResolutionCloud interface {
	AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error)
	Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	Reservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	Running(ctx context.Context, query cloud.Query) (map[string]cloud.Instance, error)
}

// ImageCloud is the AWS client for the AMIs that AWS publishes.
type ImageCloud interface {
	Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]resolve.Image, error)
	Published(ctx context.Context, patterns []string) ([]resolve.Image, error)
}

// KeyCloud is the AWS client that decrypts with keys of KMS.
type KeyCloud interface {
	Decrypt(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error)
}

// DecryptWith returns a function that decrypts with keys of KMS, each in its own region.
func DecryptWith(dial Dialer) func(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error) {
	return func(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error) {
		parts := strings.Split(arn, ":") // arn:aws:kms:REGION:ACCOUNT:key/ID
		if len(parts) < 6 || parts[2] != "kms" || parts[3] == "" {
			return nil, fmt.Errorf("%q is not the ARN of a KMS key", arn)
		}
		aws, err := dial(ctx, parts[3])
		if err != nil {
			return nil, err
		}
		return aws.Decrypt(ctx, arn, ciphertext, encryptionContext)
	}
}

// Resolution is the resolution of one reconcile of one NodeSync.
type Resolution struct {
	// Cloud returns the client of the region. It makes no request.
	Cloud func(ctx context.Context) (ResolutionCloud, error)
	// Cluster is the EKS cluster, Kubernetes its version (1.36).
	Cluster, Kubernetes string
	// Unverified is why AWS's answers may not come from this cluster's account; empty if they do.
	Unverified string
	// Timeout is the timeout of all answers together.
	Timeout time.Duration
}

// Unverified returns why AWS's answers may come from another account, given the verdict; empty if they do not.
func Unverified(account *cloud.Verdict) string {
	if account == nil || !account.OK {
		return "the account is not verified"
	}
	return ""
}

// Answers queries AWS.
func (s *Resolution) Answers(ctx context.Context, questions []plan.Question) map[render.Ref]plan.Answer {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if s.Unverified != "" {
		return refused(questions, "AWS is not queried: "+s.Unverified)
	}
	aws, err := s.Cloud(ctx)
	if err != nil {
		return refused(questions, err.Error())
	}
	answers := map[render.Ref]plan.Answer{}
	for i := range questions {
		answers[questions[i].Ref] = s.answer(ctx, aws, &questions[i])
	}
	return answers
}

func refused(questions []plan.Question, why string) map[render.Ref]plan.Answer {
	answers := map[render.Ref]plan.Answer{}
	for i := range questions {
		answers[questions[i].Ref] = *plan.Unanswered(why)
	}
	return answers
}

// answer queries what one class resolves to.
func (s *Resolution) answer(ctx context.Context, aws ResolutionCloud, q *plan.Question) (a plan.Answer) {
	if q.AMIs {
		a.AMIs = resolved(aws.AMIs(ctx, q.Class, s.Kubernetes))
	}
	if q.SecurityGroups {
		a.SecurityGroups = resolved(aws.SecurityGroups(ctx, q.Class))
	}
	if q.Subnets {
		a.Subnets = resolved(aws.Subnets(ctx, q.Class))
	}
	if q.Reservations {
		a.Reservations = resolved(aws.Reservations(ctx, q.Class))
	}
	if q.OfInstances() {
		a.Running, a.Unavailable = s.running(ctx, aws, q.Claims)
	}
	return a
}

func resolved[T any](found []T, err error) plan.Resolved[T] {
	if err != nil {
		var empty *resolve.EmptyError
		var unsupported *resolve.UnsupportedError
		return plan.Resolved[T]{Unavailable: err.Error(), Empty: errors.As(err, &empty), Unsupported: errors.As(err, &unsupported)}
	}
	return plan.Resolved[T]{Found: found}
}

// running returns what the instances of NodeClaims run. If there is an error, the instances that EC2 returned are known
// anyway.
func (s *Resolution) running(ctx context.Context, aws ResolutionCloud, claims []*plan.NodeClaim) (map[string]plan.Running, string) {
	query := cloud.Query{Cluster: s.Cluster}
	for _, c := range claims {
		if c.ProviderID != "" {
			query.ProviderIDs, query.Pools = append(query.ProviderIDs, c.ProviderID), append(query.Pools, c.Pool)
		}
	}
	found, err := aws.Running(ctx, query)
	running := make(map[string]plan.Running, len(found))
	for id, i := range found {
		running[id] = plan.Running{Subnet: i.Subnet, SecurityGroups: i.SecurityGroups, Reservation: i.Reservation}
	}
	if err != nil {
		return running, err.Error()
	}
	return running, ""
}

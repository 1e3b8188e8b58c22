package review_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// answers queries the account of the cluster for its current state, with the SDK's default credentials chain.
func (f *fleet) answers(t *testing.T, questions []plan.Question) map[render.Ref]plan.Answer {
	t.Helper()
	aws, err := cloud.New(t.Context(), cloud.Options{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	step := &account.Resolution{
		Cloud:   func(context.Context) (account.ResolutionCloud, error) { return aws, nil },
		Cluster: "sandbox", Kubernetes: f.kubernetes(t, aws), Timeout: time.Minute,
	}
	return step.Answers(t.Context(), questions)
}

// kubernetes returns the version of the cluster, which is queried once.
func (f *fleet) kubernetes(t *testing.T, aws *cloud.Client) string {
	t.Helper()
	if f.version == "" {
		found, err := aws.Cluster(t.Context(), "sandbox")
		if err != nil {
			t.Fatal(err)
		}
		f.version = found.Version
	}
	return f.version
}

// ami returns the ID that the simulator gives a published AMI of AL2023 (tests/sandbox/awssim/catalog).
func ami(arch, release string) string {
	name := fmt.Sprintf("amazon-eks-node-al2023-%s-standard-1.36-%s", arch, release)
	return fmt.Sprintf("ami-%x", sha256.Sum256([]byte(name)))[:21]
}

// The releases of AL2023 that the simulator has.
const olderRelease, newerRelease = "v20250904", "v20251002"

package main

import (
	"context"
	"errors"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/resolve"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// notAsked is why a plan does not know what AWS would say.
	notAsked = "AWS was not asked, --aws asks it with your credentials"
	// awsPatience is how long AWS is waited for.
	awsPatience = 30 * time.Second
)

// askAWS asks AWS, with the credentials of who runs the command, what selectors come to. They have
// to be of the account that has the cluster, whose authority is that of the kubeconfig.
func askAWS(authority []byte) asking {
	return ask(func(ctx context.Context, region string) (account.Cloud, error) {
		return cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version})
	}, authority)
}

// asking asks AWS what selectors come to.
type asking func(ctx context.Context, cluster, region string, questions []plan.Question) map[render.Ref]plan.Answer

// ask asks it by a client, whose account has to have the cluster.
func ask(dial account.Dialer, authority []byte) asking {
	return func(ctx context.Context, cluster, region string, questions []plan.Question) map[render.Ref]plan.Answer {
		step := &resolve.Step{Cluster: cluster, Patience: awsPatience}
		aws, err := dial(ctx, region)
		if err == nil {
			step.Cloud = func(context.Context) (resolve.Cloud, error) { return aws, nil }
			step.Kubernetes, err = confirm(ctx, aws, cluster, authority)
		}
		if err != nil {
			step.Unverified = err.Error()
		}
		return step.Answers(ctx, questions)
	}
}

// confirm says whether AWS, as it answers, has this very cluster, and of which version of
// Kubernetes that is.
func confirm(ctx context.Context, aws account.Cloud, cluster string, authority []byte) (kubernetes string, err error) {
	found, err := aws.Cluster(ctx, cluster)
	if err != nil {
		return "", err
	}
	if verdict := cloud.Verify(found, authority, nil, nil); !verdict.OK {
		return "", errors.New(verdict.Message)
	}
	return found.Version, nil
}

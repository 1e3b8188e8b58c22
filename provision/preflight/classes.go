package preflight

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Classes returns the EC2NodeClasses of a cluster; none if the API server does not serve the kind. Errors: those of the API
// server.
func Classes(ctx context.Context, api client.Reader) ([]awsv1.EC2NodeClass, error) {
	return listAs[awsv1.EC2NodeClass](ctx, api, classKind)
}

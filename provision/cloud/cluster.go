package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Cluster is an EKS cluster as AWS has it.
type Cluster struct {
	Name     string
	ARN      string
	Endpoint string
	Version  string
	// CertificateAuthority is the PEM of the API server's certificate authority.
	CertificateAuthority []byte
}

// Cluster returns the EKS cluster of a name, or a *NotFoundError.
func (c *Client) Cluster(ctx context.Context, name string) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)})
	var missing *ekstypes.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return Cluster{}, &NotFoundError{What: fmt.Sprintf("EKS cluster %s", name), Where: c.where(ctx), Err: err}
	case err != nil:
		return Cluster{}, c.named("eks:DescribeCluster", err)
	case out.Cluster == nil:
		return Cluster{}, fmt.Errorf("describe EKS cluster %s: the answer has no cluster", name)
	}
	cluster := Cluster{
		Name:     aws.ToString(out.Cluster.Name),
		ARN:      aws.ToString(out.Cluster.Arn),
		Endpoint: aws.ToString(out.Cluster.Endpoint),
		Version:  aws.ToString(out.Cluster.Version),
	}
	if authority := out.Cluster.CertificateAuthority; authority != nil {
		cluster.CertificateAuthority, err = base64.StdEncoding.DecodeString(aws.ToString(authority.Data))
		if err != nil {
			return Cluster{}, fmt.Errorf("decode the certificate authority of EKS cluster %s: %w", name, err)
		}
	}
	return cluster, nil
}

// AccountOf is the account in an ARN; empty where it has none.
func AccountOf(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[4]
	}
	return ""
}

// where is the region and, if AWS tells, the account: the most frequent reason
// why something is not there is that the credentials are another account's.
func (c *Client) where(ctx context.Context) string {
	who, err := c.Identity(ctx)
	if err != nil {
		return c.region
	}
	return fmt.Sprintf("%s of account %s", c.region, who.Account)
}

// Identity is who the credentials in use are.
type Identity struct {
	Account string
	ARN     string
}

// Identity returns who the credentials in use are.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Identity{}, c.named("sts:GetCallerIdentity", err)
	}
	return Identity{Account: aws.ToString(out.Account), ARN: aws.ToString(out.Arn)}, nil
}

package cloud

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Cluster is an EKS cluster.
type Cluster struct {
	Name     string
	ARN      string
	Endpoint string
	Version  string
	// Status in EKS's terms: ACTIVE, UPDATING, CREATING, …
	Status string
	// CertificateAuthority is the certificate of the API server's certificate authority as PEM.
	CertificateAuthority []byte
	// Issuer is that of the tokens of ServiceAccounts, without https://.
	Issuer string
	// VPC is the ID of its VPC, and SecurityGroups are those of the API server's interfaces in it.
	VPC            string
	SecurityGroups []string
	// PrivateEndpoint reports whether nodes reach the API server by these interfaces; otherwise by its public endpoint.
	PrivateEndpoint bool
	// AuthenticationMode is how it finds who a role is: API, CONFIG_MAP or API_AND_CONFIG_MAP.
	AuthenticationMode string
}

// Cluster returns the EKS cluster with a name, or a *NotFoundError.
func (c *Client) Cluster(ctx context.Context, name string) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)})
	var missing *ekstypes.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return Cluster{}, &NotFoundError{What: fmt.Sprintf("EKS cluster %s", name), Where: c.regionAndAccount(ctx), Err: err}
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
		Status:   string(out.Cluster.Status),
	}
	if identity := out.Cluster.Identity; identity != nil && identity.Oidc != nil {
		cluster.Issuer = strings.TrimPrefix(aws.ToString(identity.Oidc.Issuer), "https://")
	}
	if network := out.Cluster.ResourcesVpcConfig; network != nil {
		cluster.VPC, cluster.PrivateEndpoint = aws.ToString(network.VpcId), network.EndpointPrivateAccess
		cluster.SecurityGroups = slices.Clone(network.SecurityGroupIds)
		if made := aws.ToString(network.ClusterSecurityGroupId); made != "" {
			cluster.SecurityGroups = append(cluster.SecurityGroups, made)
		}
	}
	if access := out.Cluster.AccessConfig; access != nil {
		cluster.AuthenticationMode = string(access.AuthenticationMode)
	}
	if authority := out.Cluster.CertificateAuthority; authority != nil {
		cluster.CertificateAuthority, err = base64.StdEncoding.DecodeString(aws.ToString(authority.Data))
		if err != nil {
			return Cluster{}, fmt.Errorf("decode the certificate authority of EKS cluster %s: %w", name, err)
		}
	}
	return cluster, nil
}

// AccountOf returns the account in an ARN; empty if there is none.
func AccountOf(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[4]
	}
	return ""
}

// regionAndAccount returns the region and, if available, the account: the most frequent reason why something does not
// exist is that the credentials belong to another account.
func (c *Client) regionAndAccount(ctx context.Context) string {
	who, err := c.Identity(ctx)
	if err != nil {
		return c.region
	}
	return fmt.Sprintf("%s of account %s", c.region, who.Account)
}

// Identity is the identity of the credentials in use.
type Identity struct {
	Account string
	ARN     string
}

// Identity returns the identity of the credentials in use.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Identity{}, c.named("sts:GetCallerIdentity", err)
	}
	return Identity{Account: aws.ToString(out.Account), ARN: aws.ToString(out.Arn)}, nil
}

// Verdict reports whether AWS's responses come from the account and region of this cluster's nodes.
type Verdict struct {
	OK bool
	// Reason is the reason for a condition.
	Reason  string
	Message string
}

// The reasons of a Verdict.
const (
	ReasonVerified           = "Verified"
	ReasonAuthorityUnknown   = "CertificateAuthorityUnknown"
	ReasonAuthorityDiffers   = "CertificateAuthorityDiffers"
	ReasonInstancesInvisible = "InstancesInvisible"
)

// Verify compares AWS's responses with the cluster. The API server's certificate authority (PEM, possibly a bundle)
// must be the EKS cluster's; while EKS rotates it, each side may have a certificate that the other does not have, so
// one common certificate is enough. If there are provider IDs of live NodeClaims, EC2 must return at least one of the
// instances: an instance ID exists only in one account and region, while a single instance may be too new to be
// visible, or terminated long ago.
func Verify(cluster Cluster, apiServerCA []byte, live []string, visible []Instance) Verdict {
	ours, theirs := certificates(apiServerCA), certificates(cluster.CertificateAuthority)
	switch {
	case len(ours) == 0:
		return Verdict{Reason: ReasonAuthorityUnknown, Message: "the certificate authority of the API server is not known here, so EKS cluster " + cluster.Name + " cannot be distinguished from another one; connect with a kubeconfig or service account that has one"}
	case len(theirs) == 0:
		return Verdict{Reason: ReasonAuthorityUnknown, Message: "EKS cluster " + cluster.Name + " has no certificate authority yet"}
	case !overlap(ours, theirs):
		return Verdict{Reason: ReasonAuthorityDiffers, Message: "EKS cluster " + cluster.Name + " (" + cluster.ARN + ") has another certificate authority than this API server: it is not this cluster; check cluster.name, cluster.region and the account of plumbline's role"}
	}
	if len(live) > 0 && !anyVisible(live, visible) {
		return Verdict{Reason: ReasonInstancesInvisible, Message: fmt.Sprintf("EC2 shows none of the instances of the live NodeClaims (such as %s); check the region and the account of plumbline's role", slices.Min(live))}
	}
	return Verdict{OK: true, Reason: ReasonVerified, Message: "EC2 answers for EKS cluster " + cluster.Name}
}

func anyVisible(live []string, visible []Instance) bool {
	return slices.ContainsFunc(visible, func(i Instance) bool {
		return slices.ContainsFunc(live, func(providerID string) bool {
			_, id, err := ParseProviderID(providerID)
			return err == nil && id == i.ID
		})
	})
}

// certificates returns the DER of each certificate in a PEM bundle, so line breaks, headers and order do not matter.
func certificates(bundle []byte) []string {
	var found []string
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return found
		}
		if block.Type == "CERTIFICATE" {
			found = append(found, string(block.Bytes))
		}
		bundle = rest
	}
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(c string) bool { return slices.Contains(b, c) })
}

// nameTags are the tags whose value is a cluster's name. If the value is another name, the resource belongs to another
// cluster.
var nameTags = []string{
	nameTag,     // Karpenter since v1, and EKS Auto Mode
	templateTag, // Karpenter before v1
	cniTag,      // the VPC CNI plugin
	// the EBS CSI driver with --k8s-tag-cluster-id, and the in-tree volume plugin before it
	// (aws-ebs-csi-driver pkg/driver/constants.go, KubernetesClusterTag)
	"KubernetesCluster",
	// EKS, what its managed node groups launch, and their launch templates (EKS user guide, Launch templates)
	"eks:cluster-name",
	// EKS, the cluster's security group and its instances (EKS user guide, Tagging your resources for billing)
	"aws:eks:cluster-name",
	// eksctl (pkg/apis/eksctl.io/v1alpha5/types.go, ClusterNameTag and OldClusterNameTag)
	"alpha.eksctl.io/cluster-name",
	"eksctl.cluster.k8s.io/v1alpha1/cluster-name",
}

// ClaimError means that a resource does not belong to this cluster only, by its tags, and was not changed.
type ClaimError struct {
	Cluster string
	// Others are the clusters that have a tag on it; none if only this cluster's tags are missing.
	Others []string
	// Needs are the tags that it would need.
	Needs string
}

func (e *ClaimError) Error() string {
	if len(e.Others) == 0 {
		return "it does not have the tags " + e.Needs
	}
	return "it has a tag of cluster " + strings.Join(e.Others, ", ") + ", too"
}

// Claimed returns a *ClaimError if a resource does not belong to this cluster only.
func (r Resource) Claimed(cluster string) error {
	ours, others := r.Claim(cluster)
	if ours && len(others) == 0 {
		return nil
	}
	needs := clusterTagPrefix + cluster + "=" + clusterTagValue
	if r.Kind == KindInstance {
		needs += " and " + nodePoolTag
	}
	return &ClaimError{Cluster: cluster, Others: others, Needs: needs}
}

// Claim reports, by its tags, whether a resource belongs to a cluster's Karpenter, EBS CSI driver or VPC CNI plugin,
// with the same rules as manifests/iam-policy-teardown.json, and which other clusters have a tag on it, with any value.
// It must be owned by the cluster, or be an interface of its CNI plugin. An instance must also have a NodePool tag,
// because those of managed node groups have the same cluster tag.
func (r Resource) Claim(cluster string) (ours bool, others []string) {
	for key, value := range r.Tags {
		name, isCluster := strings.CutPrefix(key, clusterTagPrefix)
		switch {
		case isCluster && name == cluster:
			ours = ours || value == clusterTagValue
		case isCluster:
			others = append(others, name)
		case slices.Contains(nameTags, key) && value != cluster:
			others = append(others, cmp.Or(value, `""`))
		case key == cniTag && r.Kind == KindNetworkInterface:
			ours = true
		}
	}
	if r.Kind == KindInstance && (r.Tags[nodePoolTag] == "" || r.Tags[nodeGroupTag] != "") {
		ours = false
	}
	return ours, distinct(slices.Clip(others))
}

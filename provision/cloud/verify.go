package cloud

import (
	"encoding/pem"
	"fmt"
	"slices"
)

// Verdict says whether AWS, as it answers, is the account and region of this
// cluster's nodes.
type Verdict struct {
	OK bool
	// Reason is a word for a condition.
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

// Verify weighs what AWS says against what the cluster says. The API server's
// certificate authority (PEM, a bundle is fine) has to be that of the EKS
// cluster; while EKS rotates one, each side may have a certificate that the other
// has not, and one in common is enough. And of the live NodeClaims' provider IDs, if there are any, EC2 has
// to show at least one: an instance's ID exists only in one account and region,
// while a single one may be too new to be seen, or long ended.
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

// certificates returns the DER of each certificate in a PEM bundle: line breaks,
// headers and order do not matter.
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

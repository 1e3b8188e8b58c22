package plan

import (
	"encoding/base64"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Hash is Karpenter's hash of a definition, with the version of the hashing before it: "v3 1234".
// Two of different versions say nothing of each other. It is empty where Karpenter has noted none.
type Hash string

// version is that of the hashing.
func (h Hash) version() string {
	version, _, _ := strings.Cut(string(h), " ")
	return version
}

// sum is the hash without its version.
func (h Hash) sum() string {
	_, sum, _ := strings.Cut(string(h), " ")
	return sum
}

// Hashes are those that Karpenter has noted on a NodeClaim, of its NodePool and its EC2NodeClass,
// as one text, which many NodeClaims share.
type Hashes string

// HashesOf reads them from the annotations of a NodeClaim.
func HashesOf(annotations map[string]string) Hashes {
	pool, class := notedOfPool(annotations), notedOfClass(annotations)
	if pool == "" && class == "" {
		return ""
	}
	return Hashes(pool + "\n" + class)
}

// Pool is the hash of its NodePool's template.
func (h Hashes) Pool() Hash {
	pool, _, _ := strings.Cut(string(h), "\n")
	return Hash(pool)
}

// Class is the hash of its EC2NodeClass.
func (h Hashes) Class() Hash {
	_, class, _ := strings.Cut(string(h), "\n")
	return Hash(class)
}

// poolHash is the hash of a NodePool as the linked library counts it.
func poolHash(pool *karpv1.NodePool) Hash {
	return hash(karpv1.NodePoolHashVersion, pool.Hash())
}

// CABundle is a bundle of authorities, in PEM, as Karpenter has it in the hash of an EC2NodeClass
// (GetCABundle in karpenter-provider-aws pkg/operator/operator.go, 1.14.1).
func CABundle(authorities []byte) string { return base64.StdEncoding.EncodeToString(authorities) }

// classHash is the hash of an EC2NodeClass as the linked library counts it, in a cluster with a
// bundle of authorities (base64; empty where it does not matter). It is empty where the library
// cannot be asked.
func classHash(class *awsv1.EC2NodeClass, bundle string) Hash {
	if !Hashable(class) {
		return ""
	}
	return hash(awsv1.EC2NodeClassHashVersion, class.Hash(&bundle))
}

// notedOfPool is the hash of a NodePool that Karpenter has noted in annotations, of the pool or a
// NodeClaim.
func notedOfPool(annotations map[string]string) Hash {
	return hash(annotations[karpv1.NodePoolHashVersionAnnotationKey], annotations[karpv1.NodePoolHashAnnotationKey])
}

// notedOfClass is likewise that of an EC2NodeClass.
func notedOfClass(annotations map[string]string) Hash {
	return hash(annotations[awsv1.AnnotationEC2NodeClassHashVersion], annotations[awsv1.AnnotationEC2NodeClassHash])
}

func hash(version, sum string) Hash {
	if version == "" || sum == "" {
		return ""
	}
	return Hash(version + " " + sum)
}

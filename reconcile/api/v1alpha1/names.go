package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ObjectName is the name of an object that plumbline keeps for a NodeSync: the
// prefix says of what sort it is. Where that is too long for a name it is cut, and
// the hash of the NodeSync's name tells it from others.
func ObjectName(prefix, nodeSync string) string {
	name := prefix + nodeSync
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	const digits = 10
	sum := sha256.Sum256([]byte(nodeSync))
	cut := strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-digits-1], ".-")
	return cut + "-" + hex.EncodeToString(sum[:])[:digits]
}

// AppliedName is the name of the ConfigMap with the record of what a NodeSync has applied. No
// record of removals can have it: those begin with "plumbline-".
func AppliedName(nodeSync string) string { return ObjectName("plumbline.applied-", nodeSync) }

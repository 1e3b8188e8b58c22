package cloud

import (
	"fmt"
	"regexp"
)

// providerIDForm is how Karpenter writes an instance into a NodeClaim
// (karpenter-provider-aws pkg/utils/utils.go, ParseInstanceID).
var providerIDForm = regexp.MustCompile(`^aws:///([a-z0-9-]+)/(i-[0-9a-zA-Z]+)$`)

// ParseProviderID takes aws:///<zone>/<instance ID> apart.
func ParseProviderID(providerID string) (zone, instanceID string, err error) {
	parts := providerIDForm.FindStringSubmatch(providerID)
	if parts == nil {
		return "", "", fmt.Errorf("read provider ID %q: want aws:///<zone>/<instance>", providerID)
	}
	return parts[1], parts[2], nil
}

// InstanceID is how people know an instance, by its provider ID; one that is not AWS's is left as it is.
func InstanceID(providerID string) string {
	if _, id, err := ParseProviderID(providerID); err == nil {
		return id
	}
	return providerID
}

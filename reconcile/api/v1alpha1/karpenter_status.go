package v1alpha1

// GetClusterARN is the EKS cluster that was verified to be this one; empty until it was, and
// where nothing is installed.
func (k *KarpenterStatus) GetClusterARN() string {
	if k == nil {
		return ""
	}
	return k.ClusterARN
}

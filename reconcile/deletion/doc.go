// Package deletion finds out whether the API server denies the deletion of what plumbline manages:
// whether each ValidatingAdmissionPolicy of the deletion guard, and its binding, is in the cluster as
// this version installs it. In come the policies of manifests/guard and what the API server has; out come
// words on the first that is missing or altered (Compare, which is pure). An Asker reads what is there,
// by name, and not at each pass. Deny compares the policy of finalizers with the ServiceAccount that Karpenter's
// controller runs under.
//
// It changes nothing: a person restores what another person removed.
package deletion

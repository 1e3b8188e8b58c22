// Package deletion finds out whether the API server denies the deletion of what plumbline manages:
// whether each ValidatingAdmissionPolicy of the deletion guard, and its binding, is in the cluster as
// this version installs it. Its input is the policies of manifests/guard and those of the API server; its output is
// which of them are missing or altered (Compare, which is pure). An Asker reads what is there,
// by name, and not at each reconcile. Deny compares the policy of finalizers with the ServiceAccount that Karpenter's
// controller runs under.
//
// It changes nothing: a person restores what another person removed.
package deletion

// Package deletion finds out whether the API server denies the deletion of the objects that plumbline manages: whether
// each ValidatingAdmissionPolicy of the deletion guard, and its binding, is in the cluster as this version installs it.
// Its input is the policies of manifests/guard and those of the API server; its output is which of them are missing or
// altered (Compare, which is pure). A Checker reads them by name, and not in each reconcile. Deny compares the
// finalizer policy with the ServiceAccount of Karpenter's controller.
//
// It changes nothing: if a person has removed a policy, a person restores it.
package deletion

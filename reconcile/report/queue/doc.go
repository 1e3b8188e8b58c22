// Package queue keeps commit statuses until their Git hosts have them.
//
// In goes an Update, the verdict of a reconcile on a commit; out go Posts on the
// hosts, at some later time. In between it stands in a Ledger, one for each
// NodeSync, in a ConfigMap that the NodeSync owns: a daemon that dies loses
// nothing of it and repeats nothing.
//
// A Ledger has a Lane for each host. Lanes do not wait for each other. In a Lane
// there is at most one Entry for a commit: what a newer word has overtaken is
// never posted. What an error of a host means is in one table (outcome.go).
//
// The Ledger's own rules are pure. The Queue reads and writes it, the Deliverer
// posts. Neither speaks to people: a Lane's trouble is reported by the NodeSync's
// next reconcile.
package queue

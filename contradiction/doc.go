// Package contradiction compares values of Karpenter's chart, and a running controller, with the cluster that
// plumbline.yaml names.
//
// Its inputs are the cluster's fields, and values or the cluster name of a running controller; its outputs are the
// differences, with uniform messages. It does no I/O, and uses neither files nor a cluster.
package contradiction
